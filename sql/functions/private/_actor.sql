-- Who acts, as far as is said: the name given to act_as, else the database user.
create or replace function batchq._actor()
returns text
language sql
stable
return coalesce(left(nullif(current_setting('batchq.actor', true), ''), 200), session_user::text);
