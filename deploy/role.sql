-- Creates a role and a database for deepwork, with the minimum of rights.
-- Run it once with psql 14 or newer, as a user who may create roles and databases:
--
--   DEEPWORK_DATABASE_PASSWORD=... psql --dbname postgres --file deploy/role.sql
--
-- The password comes from the environment, because every user of the machine can read command lines.

\set ON_ERROR_STOP on
\getenv password DEEPWORK_DATABASE_PASSWORD
\if :{?password}
\else
  \warn 'Set DEEPWORK_DATABASE_PASSWORD to the password for the role.'
  -- Make psql exit with an error; \quit would exit with success.
  SELECT no_password_was_given;
\endif

-- Each server uses at most 10 connections for calls, one to listen for events, and two while it migrates.
CREATE ROLE deepwork LOGIN PASSWORD :'password'
    NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS NOINHERIT
    CONNECTION LIMIT 65;

CREATE DATABASE deepwork ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE deepwork FROM PUBLIC;
GRANT CONNECT ON DATABASE deepwork TO deepwork;

-- Answered calls must survive a crash, whatever the database server's default is.
ALTER ROLE deepwork IN DATABASE deepwork SET synchronous_commit = 'on';
-- No session waits forever or blocks others forever. deepwork sets the same limits itself.
ALTER ROLE deepwork IN DATABASE deepwork SET statement_timeout = '30s';
ALTER ROLE deepwork IN DATABASE deepwork SET lock_timeout = '30s';
ALTER ROLE deepwork IN DATABASE deepwork SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE deepwork IN DATABASE deepwork SET search_path = 'deepwork';

\connect deepwork
REVOKE ALL ON SCHEMA public FROM PUBLIC;
CREATE SCHEMA deepwork AUTHORIZATION deepwork;
