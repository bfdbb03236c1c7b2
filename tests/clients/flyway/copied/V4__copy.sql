COPY account (email) FROM STDIN;
carl@example.org
dora@example.org
\.
