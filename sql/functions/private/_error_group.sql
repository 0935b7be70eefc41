/*
 * What errors that differ in details only have in common: the first line, with … for quoted text
 * and N for numbers, UUIDs and hex. An apostrophe within a word quotes nothing.
 */
create or replace function batchq._error_group(error text)
returns text
language sql
immutable
return regexp_replace(
    regexp_replace(
        left(split_part(ltrim(left(error, 2000), E' \r\n\t'), E'\n', 1), 300),
        $_error_group$(^|\W)('[^']*'|"[^"]*")(?!\w)$_error_group$, '\1''…''', 'g'),
    '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\m0x[0-9a-f]+\M|\m[0-9a-f]{8,}\M|\d+', 'N', 'gi');
