CREATE TABLE half (id int);
INSERT INTO missing VALUES (1);
