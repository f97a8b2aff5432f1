-- A role and a database for deepwork, with as few rights as it can work with.
-- Run once with psql 14 or newer, as somebody who may create roles and databases:
--
--   DEEPWORK_DATABASE_PASSWORD=... psql --dbname postgres --file deploy/role.sql
--
-- The password comes from the environment, because a command line can be read by everybody on the machine.

\set ON_ERROR_STOP on
\getenv password DEEPWORK_DATABASE_PASSWORD
\if :{?password}
\else
  \warn 'Set DEEPWORK_DATABASE_PASSWORD to the password that the role shall have.'
  -- Ends psql with an error where \quit would end it as if all were well.
  SELECT no_password_was_given;
\endif

-- Each server takes at most 10 connections for calls, one to hear of events, and two while it migrates.
CREATE ROLE deepwork LOGIN PASSWORD :'password'
    NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS NOINHERIT
    CONNECTION LIMIT 65;

CREATE DATABASE deepwork ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE deepwork FROM PUBLIC;
GRANT CONNECT ON DATABASE deepwork TO deepwork;

-- What has been answered must survive a crash, whatever the server's own default is.
ALTER ROLE deepwork IN DATABASE deepwork SET synchronous_commit = 'on';
-- Nobody waits for ever, and nobody keeps others waiting. deepwork asks for the same by itself.
ALTER ROLE deepwork IN DATABASE deepwork SET statement_timeout = '30s';
ALTER ROLE deepwork IN DATABASE deepwork SET lock_timeout = '30s';
ALTER ROLE deepwork IN DATABASE deepwork SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE deepwork IN DATABASE deepwork SET search_path = 'deepwork';

\connect deepwork
REVOKE ALL ON SCHEMA public FROM PUBLIC;
CREATE SCHEMA deepwork AUTHORIZATION deepwork;
