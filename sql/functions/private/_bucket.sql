-- The first element of a histogram that counts so many seconds: i for at most 2^(i-1) ms. 29: none,
-- it was longer. Times have whole microseconds, so a tenth of one less makes "less" "at most".
create or replace function batchq._bucket(seconds double precision)
returns integer
language sql
immutable
return width_bucket(seconds - 1e-7, array[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384, 32.768, 65.536, 131.072, 262.144, 524.288, 1048.576, 2097.152, 4194.304,
    8388.608, 16777.216, 33554.432, 67108.864, 134217.728]::double precision[]) + 1;
