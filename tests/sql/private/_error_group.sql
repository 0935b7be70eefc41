begin;
select plan(18);
\ir ../clock.psql

select is(batchq._error_group(e), wanted, format('%s: %L', wanted, e)) from (values
    ('E: no', 'E: no'),
    ('', ''),
    (E'E: no\nTraceback:\n line 7', 'E: no'),
    (E' \n\r\n E: no \r\nrest', E'E: no \r'),
    ('HTTP 503 after 1.5 s, job 17', 'HTTP N after N.N s, job N'),
    ('no user 9f1b2c3d-0000-4000-8000-0123456789AB here', 'no user N here'),
    ('at 0x7F00aa, commit deadBEEF01', 'at N, commit N'),
    ('facade decade', 'facade decade'),
    ('KeyError: ''a b'' of "x 1"', 'KeyError: ''…'' of ''…'''),
    ('(''a'', ''b'')', '(''…'', ''…'')'),
    ('can''t open ''x'' or ''y''', 'can''t open ''…'' or ''…'''),
    ('workers'' and owners'' own', 'workers'' and owners'' own'),
    ('open ''x', 'open ''x'),
    ('Fehler: Größe 5 zu groß', 'Fehler: Größe N zu groß'),
    ('lease expired: worker host:12 did not renew it',
     'lease expired: worker host:N did not renew it')) v(e, wanted);
select is(batchq._error_group(null), null, 'null is null');
select is(length(batchq._error_group(repeat('x', 100000))), 300, 'a line is cut at 300 characters');
select is(batchq._error_group(repeat('''', 100000)) is not null, true, 'nothing odd takes long');

select * from finish();
rollback;
