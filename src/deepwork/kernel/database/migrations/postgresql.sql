-- Written from the migrations by `make schema`; do not edit.
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE agents (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    runtime TEXT NOT NULL,
    role TEXT NOT NULL,
    said TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    current_task_id TEXT,
    workspace_path TEXT,
    metadata TEXT NOT NULL,
    registered_by TEXT NOT NULL,
    last_heartbeat BIGINT NOT NULL,
    silent_since BIGINT,
    unregistered_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX agents_by_age ON agents (created_at, id);
CREATE INDEX agents_by_sign_of_life ON agents (silent_since, unregistered_at, last_heartbeat);
CREATE TABLE leases (
    what TEXT NOT NULL,
    who TEXT,
    epoch BIGINT NOT NULL,
    until BIGINT NOT NULL,
    PRIMARY KEY (what)
);
CREATE INDEX leases_by_holder ON leases (who);
CREATE TABLE lost_leases (
    who TEXT NOT NULL,
    what TEXT NOT NULL,
    lost_at BIGINT NOT NULL,
    PRIMARY KEY (who, what)
);
CREATE TABLE inboxes (
    agent_id TEXT NOT NULL,
    received BIGINT NOT NULL,
    PRIMARY KEY (agent_id),
    FOREIGN KEY(agent_id) REFERENCES agents (id)
);
CREATE TABLE messages (
    id TEXT NOT NULL,
    sender_id TEXT,
    recipient_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    message_type TEXT NOT NULL,
    subject TEXT,
    body TEXT NOT NULL,
    priority TEXT NOT NULL,
    status TEXT NOT NULL,
    workflow_id TEXT,
    task_id TEXT,
    reply_to_id TEXT,
    thread_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    read_at BIGINT,
    expires_at BIGINT,
    PRIMARY KEY (id),
    CONSTRAINT messages_in_order UNIQUE (recipient_id, position),
    FOREIGN KEY(sender_id) REFERENCES agents (id),
    FOREIGN KEY(recipient_id) REFERENCES agents (id),
    FOREIGN KEY(reply_to_id) REFERENCES messages (id)
);
CREATE INDEX messages_by_status ON messages (recipient_id, status, position);
CREATE INDEX messages_waiting ON messages (recipient_id, status, priority, expires_at);
CREATE INDEX messages_by_thread ON messages (thread_id, created_at);
CREATE INDEX messages_by_sender ON messages (sender_id);
CREATE TABLE events (
    seq BIGINT NOT NULL,
    type TEXT NOT NULL,
    workflow_id TEXT,
    ts BIGINT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (seq)
);
CREATE INDEX events_by_workflow ON events (workflow_id, seq);
CREATE INDEX events_by_time ON events (ts);
CREATE TABLE event_sequence (
    last_seq BIGINT NOT NULL
);
INSERT INTO event_sequence (last_seq) VALUES (0);
CREATE TABLE idempotency_keys (
    caller TEXT NOT NULL,
    tool TEXT NOT NULL,
    key TEXT NOT NULL,
    arguments TEXT NOT NULL,
    answer TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (caller, tool, key)
);
CREATE INDEX idempotency_keys_by_time ON idempotency_keys (created_at);
INSERT INTO alembic_version (version_num) VALUES ('0001') RETURNING alembic_version.version_num;
CREATE TABLE job_sessions (
    id TEXT NOT NULL,
    job_name TEXT NOT NULL,
    workflow_name TEXT NOT NULL,
    status TEXT NOT NULL,
    step_id TEXT NOT NULL,
    generation BIGINT NOT NULL,
    started_at TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX job_sessions_by_status ON job_sessions (status, updated_at);
CREATE TABLE passed_reviews (
    mark TEXT NOT NULL,
    passed_at BIGINT NOT NULL,
    PRIMARY KEY (mark)
);
UPDATE alembic_version SET version_num='0002' WHERE alembic_version.version_num = '0001';
CREATE TABLE plans (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    source_type TEXT NOT NULL,
    source_ref TEXT,
    source_content TEXT NOT NULL,
    status TEXT NOT NULL,
    plan_summary TEXT,
    initial_plan TEXT,
    repository_path TEXT,
    max_parallel_tasks BIGINT NOT NULL,
    auto_create_workspaces BOOLEAN NOT NULL,
    file_conflicts TEXT NOT NULL,
    created_by TEXT NOT NULL,
    completed_tasks BIGINT NOT NULL,
    completed_ms BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX plans_by_age ON plans (created_at, id);
CREATE INDEX plans_by_status ON plans (status, created_at);
CREATE TABLE plan_tasks (
    id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    status TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    parallel_group TEXT,
    is_explicit BOOLEAN NOT NULL,
    open_dependencies BIGINT NOT NULL,
    claimed_by TEXT,
    plan TEXT,
    context TEXT NOT NULL,
    outcome TEXT,
    outcome_detail TEXT,
    error TEXT,
    attempts BIGINT NOT NULL,
    checkpoints BIGINT NOT NULL,
    workspace_id TEXT,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT plan_tasks_by_name UNIQUE (workflow_id, name),
    FOREIGN KEY(workflow_id) REFERENCES plans (id)
);
CREATE INDEX plan_tasks_in_order ON plan_tasks (workflow_id, status, sequence, position, claimed_by, is_explicit, open_dependencies);
CREATE INDEX plan_tasks_by_level ON plan_tasks (workflow_id, sequence, position, status);
CREATE INDEX plan_tasks_by_group ON plan_tasks (workflow_id, parallel_group, status) WHERE parallel_group IS NOT NULL;
CREATE INDEX plan_tasks_claimed ON plan_tasks (workflow_id, claimed_by) WHERE claimed_by IS NOT NULL;
CREATE TABLE plan_dependencies (
    task_id TEXT NOT NULL,
    depends_on_id TEXT NOT NULL,
    PRIMARY KEY (task_id, depends_on_id),
    FOREIGN KEY(task_id) REFERENCES plan_tasks (id),
    FOREIGN KEY(depends_on_id) REFERENCES plan_tasks (id)
);
CREATE INDEX plan_dependents ON plan_dependencies (depends_on_id);
CREATE TABLE plan_claims (
    task_id TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    agent_id TEXT NOT NULL,
    claimed_at BIGINT NOT NULL,
    PRIMARY KEY (task_id, epoch),
    FOREIGN KEY(task_id) REFERENCES plan_tasks (id)
);
CREATE TABLE checkpoints (
    task_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    summary TEXT NOT NULL,
    detail TEXT,
    files_changed TEXT NOT NULL,
    agent_id TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (task_id, sequence),
    FOREIGN KEY(task_id) REFERENCES plan_tasks (id),
    UNIQUE (id)
);
CREATE TABLE plan_history (
    workflow_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    task_id TEXT,
    what TEXT NOT NULL,
    before TEXT,
    after TEXT,
    reason TEXT,
    by_whom TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (workflow_id, number),
    FOREIGN KEY(workflow_id) REFERENCES plans (id)
);
CREATE INDEX plan_history_by_task ON plan_history (task_id);
CREATE TABLE templates (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    definition TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name)
);
CREATE TABLE plan_words (id TEXT NOT NULL, workflow_id TEXT NOT NULL, words TSVECTOR NOT NULL);
CREATE INDEX plan_words_by_word ON plan_words USING gin (words);
CREATE INDEX plan_words_by_plan ON plan_words (workflow_id);
UPDATE alembic_version SET version_num='0003' WHERE alembic_version.version_num = '0002';
CREATE TABLE repositories (
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    path TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT repositories_by_path UNIQUE (host, path)
);
CREATE INDEX repositories_by_age ON repositories (created_at, id);
CREATE INDEX plans_by_repository ON plans (repository_path, created_at);
CREATE TABLE workspaces (
    id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    host TEXT NOT NULL,
    repository_path TEXT NOT NULL,
    path TEXT NOT NULL,
    branch TEXT NOT NULL,
    base_branch TEXT,
    base_commit TEXT,
    status TEXT NOT NULL,
    merge_commit TEXT,
    rescue_branch TEXT,
    is_made BOOLEAN NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(workflow_id) REFERENCES plans (id)
);
CREATE INDEX workspaces_by_plan ON workspaces (workflow_id, created_at);
CREATE UNIQUE INDEX workspaces_by_tree ON workspaces (host, path) WHERE status = 'active';
CREATE UNIQUE INDEX workspaces_by_branch ON workspaces (host, repository_path, branch) WHERE status = 'active';
CREATE INDEX plan_tasks_by_workspace ON plan_tasks (workspace_id) WHERE workspace_id IS NOT NULL;
CREATE TABLE tokens (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    scope TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    last_used_at BIGINT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE revoked_at IS NULL;
CREATE TABLE audit (
    seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    account TEXT NOT NULL,
    caller TEXT NOT NULL,
    host TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    digest TEXT NOT NULL,
    outcome TEXT NOT NULL,
    chain TEXT NOT NULL,
    PRIMARY KEY (seq)
);
CREATE TABLE audit_head (
    seq BIGINT NOT NULL,
    chain TEXT NOT NULL
);
INSERT INTO audit_head (seq, chain) VALUES (0, '');
UPDATE alembic_version SET version_num='0004' WHERE alembic_version.version_num = '0003';
CREATE TABLE tracked_workflows (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    objective TEXT NOT NULL,
    scope TEXT,
    constraints TEXT,
    profile TEXT NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT,
    summary TEXT,
    achievements TEXT NOT NULL,
    limitations TEXT NOT NULL,
    current_phase BIGINT NOT NULL,
    total_phases BIGINT NOT NULL,
    repository_path TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    completed_at BIGINT,
    PRIMARY KEY (id)
);
CREATE INDEX tracked_workflows_by_age ON tracked_workflows (created_at, id);
CREATE INDEX tracked_workflows_by_change ON tracked_workflows (updated_at, id);
CREATE INDEX tracked_workflows_by_status ON tracked_workflows (status, updated_at);
CREATE TABLE phases (
    id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    summary TEXT,
    status TEXT NOT NULL,
    is_parallel BOOLEAN NOT NULL,
    started_at BIGINT NOT NULL,
    completed_at BIGINT,
    PRIMARY KEY (id),
    CONSTRAINT phases_by_number UNIQUE (workflow_id, number),
    FOREIGN KEY(workflow_id) REFERENCES tracked_workflows (id)
);
CREATE TABLE tracked_tasks (
    id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    phase_id TEXT NOT NULL,
    parent_task_id TEXT,
    name TEXT NOT NULL,
    goal TEXT NOT NULL,
    status TEXT NOT NULL,
    caller_type TEXT NOT NULL,
    agent_name TEXT,
    areas TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    last_sign_at BIGINT NOT NULL,
    completed_at BIGINT,
    outcome TEXT NOT NULL,
    metadata TEXT NOT NULL,
    result TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(workflow_id) REFERENCES tracked_workflows (id),
    FOREIGN KEY(phase_id) REFERENCES phases (id),
    FOREIGN KEY(parent_task_id) REFERENCES tracked_tasks (id)
);
CREATE INDEX tracked_tasks_by_phase ON tracked_tasks (phase_id, status, started_at, completed_at);
CREATE INDEX tracked_tasks_in_order ON tracked_tasks (workflow_id, started_at, id);
CREATE INDEX tracked_tasks_by_status ON tracked_tasks (workflow_id, status, agent_name, tokens);
CREATE INDEX tracked_tasks_by_name ON tracked_tasks (workflow_id, name, started_at);
CREATE INDEX tasks_to_review ON tracked_tasks (completed_at, id) WHERE outcome LIKE '%"manual_review_needed": true%';
CREATE INDEX tracked_tasks_by_parent ON tracked_tasks (parent_task_id, status) WHERE parent_task_id IS NOT NULL;
CREATE TABLE decisions (
    id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    task_name TEXT NOT NULL,
    phase_id TEXT,
    agent_name TEXT,
    category TEXT NOT NULL,
    question TEXT NOT NULL,
    options_considered TEXT NOT NULL,
    chosen TEXT NOT NULL,
    reasoning TEXT NOT NULL,
    trade_offs TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX decisions_by_age ON decisions (workflow_id, created_at, id);
CREATE INDEX decisions_by_task ON decisions (task_id, created_at, id);
CREATE TABLE issues (
    id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    task_name TEXT NOT NULL,
    phase_id TEXT,
    agent_name TEXT,
    type TEXT NOT NULL,
    description TEXT NOT NULL,
    resolution TEXT NOT NULL,
    requires_human_review BOOLEAN NOT NULL,
    resolved_at BIGINT,
    resolved_by TEXT,
    resolution_note TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX issues_by_age ON issues (workflow_id, created_at, id);
CREATE INDEX issues_by_task ON issues (task_id, created_at, id);
CREATE INDEX open_blockers ON issues (workflow_id, created_at) WHERE requires_human_review AND resolved_at IS NULL;
CREATE TABLE milestones (
    id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    task_name TEXT NOT NULL,
    phase_id TEXT,
    agent_name TEXT,
    message TEXT NOT NULL,
    progress BIGINT,
    metadata TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX milestones_by_age ON milestones (workflow_id, created_at, id);
CREATE INDEX milestones_by_task ON milestones (task_id, created_at, id);
CREATE TABLE watches (
    task_id TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    workflow_id TEXT NOT NULL,
    parent_task_id TEXT,
    areas TEXT NOT NULL,
    host TEXT NOT NULL,
    tree_path TEXT NOT NULL,
    began_at BIGINT NOT NULL,
    began TEXT NOT NULL,
    ended_at BIGINT,
    ended TEXT,
    PRIMARY KEY (task_id, attempt)
);
CREATE INDEX watches_by_tree ON watches (host, tree_path, ended_at, began_at);
CREATE TABLE changed_files (
    task_id TEXT NOT NULL,
    path TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    status TEXT NOT NULL,
    attribution TEXT NOT NULL,
    details TEXT NOT NULL,
    PRIMARY KEY (task_id, path)
);
CREATE INDEX changed_files_by_plan ON changed_files (workflow_id, path);
CREATE INDEX changed_files_by_task ON changed_files (workflow_id, task_id);
CREATE INDEX decisions_by_time ON decisions (created_at, id);
CREATE INDEX blockers_by_time ON issues (created_at, id) WHERE requires_human_review;
CREATE INDEX open_blockers_by_time ON issues (created_at, id) WHERE requires_human_review AND resolved_at IS NULL;
CREATE INDEX plans_by_change ON plans (updated_at, id);
CREATE INDEX plan_claims_by_agent ON plan_claims (agent_id);
CREATE INDEX job_sessions_by_age ON job_sessions (started_at, id);
CREATE INDEX job_sessions_by_change ON job_sessions (updated_at, id);
UPDATE alembic_version SET version_num='0005' WHERE alembic_version.version_num = '0004';
ALTER TABLE agents ADD COLUMN created_seq BIGINT;
UPDATE agents SET created_seq = numbered.place FROM (SELECT id, row_number() OVER (ORDER BY created_at, id) AS place FROM agents) AS numbered WHERE numbered.id = agents.id;
CREATE UNIQUE INDEX agents_by_creation ON agents (created_seq);
ALTER TABLE messages ADD COLUMN created_seq BIGINT;
UPDATE messages SET created_seq = numbered.place FROM (SELECT id, row_number() OVER (ORDER BY created_at, id) AS place FROM messages) AS numbered WHERE numbered.id = messages.id;
CREATE UNIQUE INDEX messages_by_creation ON messages (created_seq);
ALTER TABLE job_sessions ADD COLUMN created_seq BIGINT;
UPDATE job_sessions SET created_seq = numbered.place FROM (SELECT id, row_number() OVER (ORDER BY started_at, id) AS place FROM job_sessions) AS numbered WHERE numbered.id = job_sessions.id;
CREATE UNIQUE INDEX job_sessions_by_creation ON job_sessions (created_seq);
ALTER TABLE plans ADD COLUMN created_seq BIGINT;
UPDATE plans SET created_seq = numbered.place FROM (SELECT id, row_number() OVER (ORDER BY created_at, id) AS place FROM plans) AS numbered WHERE numbered.id = plans.id;
CREATE UNIQUE INDEX plans_by_creation ON plans (created_seq);
ALTER TABLE repositories ADD COLUMN created_seq BIGINT;
UPDATE repositories SET created_seq = numbered.place FROM (SELECT id, row_number() OVER (ORDER BY created_at, id) AS place FROM repositories) AS numbered WHERE numbered.id = repositories.id;
CREATE UNIQUE INDEX repositories_by_creation ON repositories (created_seq);
ALTER TABLE workspaces ADD COLUMN created_seq BIGINT;
UPDATE workspaces SET created_seq = numbered.place FROM (SELECT id, row_number() OVER (ORDER BY created_at, id) AS place FROM workspaces) AS numbered WHERE numbered.id = workspaces.id;
CREATE UNIQUE INDEX workspaces_by_creation ON workspaces (created_seq);
ALTER TABLE tokens ADD COLUMN created_seq BIGINT;
UPDATE tokens SET created_seq = numbered.place FROM (SELECT id, row_number() OVER (ORDER BY created_at, id) AS place FROM tokens) AS numbered WHERE numbered.id = tokens.id;
CREATE UNIQUE INDEX tokens_by_creation ON tokens (created_seq);
ALTER TABLE tracked_workflows ADD COLUMN created_seq BIGINT;
UPDATE tracked_workflows SET created_seq = numbered.place FROM (SELECT id, row_number() OVER (ORDER BY created_at, id) AS place FROM tracked_workflows) AS numbered WHERE numbered.id = tracked_workflows.id;
CREATE UNIQUE INDEX tracked_workflows_by_creation ON tracked_workflows (created_seq);
ALTER TABLE tracked_tasks ADD COLUMN created_seq BIGINT;
UPDATE tracked_tasks SET created_seq = numbered.place FROM (SELECT id, row_number() OVER (ORDER BY started_at, id) AS place FROM tracked_tasks) AS numbered WHERE numbered.id = tracked_tasks.id;
CREATE UNIQUE INDEX tracked_tasks_by_creation ON tracked_tasks (created_seq);
ALTER TABLE decisions ADD COLUMN created_seq BIGINT;
UPDATE decisions SET created_seq = numbered.place FROM (SELECT id, row_number() OVER (ORDER BY created_at, id) AS place FROM decisions) AS numbered WHERE numbered.id = decisions.id;
CREATE UNIQUE INDEX decisions_by_creation ON decisions (created_seq);
ALTER TABLE issues ADD COLUMN created_seq BIGINT;
UPDATE issues SET created_seq = numbered.place FROM (SELECT id, row_number() OVER (ORDER BY created_at, id) AS place FROM issues) AS numbered WHERE numbered.id = issues.id;
CREATE UNIQUE INDEX issues_by_creation ON issues (created_seq);
ALTER TABLE milestones ADD COLUMN created_seq BIGINT;
UPDATE milestones SET created_seq = numbered.place FROM (SELECT id, row_number() OVER (ORDER BY created_at, id) AS place FROM milestones) AS numbered WHERE numbered.id = milestones.id;
CREATE UNIQUE INDEX milestones_by_creation ON milestones (created_seq);
CREATE SEQUENCE creation_order;
SELECT setval('creation_order', greatest(1, (SELECT max(created_seq) FROM agents), (SELECT max(created_seq) FROM messages), (SELECT max(created_seq) FROM job_sessions), (SELECT max(created_seq) FROM plans), (SELECT max(created_seq) FROM repositories), (SELECT max(created_seq) FROM workspaces), (SELECT max(created_seq) FROM tokens), (SELECT max(created_seq) FROM tracked_workflows), (SELECT max(created_seq) FROM tracked_tasks), (SELECT max(created_seq) FROM decisions), (SELECT max(created_seq) FROM issues), (SELECT max(created_seq) FROM milestones)));
ALTER TABLE agents ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE agents ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
ALTER TABLE messages ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE messages ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
ALTER TABLE job_sessions ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE job_sessions ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
ALTER TABLE plans ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE plans ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
ALTER TABLE repositories ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE repositories ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
ALTER TABLE workspaces ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE workspaces ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
ALTER TABLE tokens ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE tokens ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
ALTER TABLE tracked_workflows ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE tracked_workflows ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
ALTER TABLE tracked_tasks ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE tracked_tasks ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
ALTER TABLE decisions ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE decisions ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
ALTER TABLE issues ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE issues ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
ALTER TABLE milestones ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE milestones ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
DROP INDEX agents_by_age;
CREATE INDEX agents_by_age ON agents (created_at, created_seq);
DROP INDEX plans_by_age;
CREATE INDEX plans_by_age ON plans (created_at, created_seq);
DROP INDEX repositories_by_age;
CREATE INDEX repositories_by_age ON repositories (created_at, created_seq);
DROP INDEX tracked_workflows_by_age;
CREATE INDEX tracked_workflows_by_age ON tracked_workflows (created_at, created_seq);
DROP INDEX plans_by_change;
CREATE INDEX plans_by_change ON plans (updated_at, created_seq);
DROP INDEX tracked_workflows_by_change;
CREATE INDEX tracked_workflows_by_change ON tracked_workflows (updated_at, created_seq);
DROP INDEX job_sessions_by_change;
CREATE INDEX job_sessions_by_change ON job_sessions (updated_at, created_seq);
DROP INDEX decisions_by_age;
CREATE INDEX decisions_by_age ON decisions (workflow_id, created_at, created_seq);
DROP INDEX decisions_by_task;
CREATE INDEX decisions_by_task ON decisions (task_id, created_at, created_seq);
DROP INDEX issues_by_age;
CREATE INDEX issues_by_age ON issues (workflow_id, created_at, created_seq);
DROP INDEX issues_by_task;
CREATE INDEX issues_by_task ON issues (task_id, created_at, created_seq);
DROP INDEX milestones_by_age;
CREATE INDEX milestones_by_age ON milestones (workflow_id, created_at, created_seq);
DROP INDEX milestones_by_task;
CREATE INDEX milestones_by_task ON milestones (task_id, created_at, created_seq);
DROP INDEX job_sessions_by_age;
CREATE INDEX job_sessions_by_age ON job_sessions (started_at, created_seq);
DROP INDEX tracked_tasks_in_order;
CREATE INDEX tracked_tasks_in_order ON tracked_tasks (workflow_id, started_at, created_seq);
DROP INDEX messages_by_thread;
CREATE INDEX messages_by_thread ON messages (thread_id, created_at, created_seq);
DROP INDEX workspaces_by_plan;
CREATE INDEX workspaces_by_plan ON workspaces (workflow_id, created_at, created_seq);
DROP INDEX decisions_by_time;
CREATE INDEX decisions_by_time ON decisions (created_at, created_seq);
DROP INDEX blockers_by_time;
CREATE INDEX blockers_by_time ON issues (created_at, created_seq) WHERE requires_human_review;
DROP INDEX open_blockers_by_time;
CREATE INDEX open_blockers_by_time ON issues (created_at, created_seq) WHERE requires_human_review AND resolved_at IS NULL;
DROP INDEX tasks_to_review;
CREATE INDEX tasks_to_review ON tracked_tasks (completed_at, created_seq) WHERE outcome LIKE '%"manual_review_needed": true%';
UPDATE alembic_version SET version_num='0006' WHERE alembic_version.version_num = '0005';
ALTER TABLE milestones ADD COLUMN logged_by_person TEXT;
ALTER TABLE tracked_tasks ADD COLUMN manual_review_needed BOOLEAN DEFAULT false NOT NULL;
ALTER TABLE job_sessions ADD COLUMN goal TEXT DEFAULT '' NOT NULL;
CREATE TABLE plan_capabilities (
    task_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    capability TEXT NOT NULL,
    PRIMARY KEY (task_id, number),
    FOREIGN KEY(task_id) REFERENCES plan_tasks (id)
);
DROP INDEX tasks_to_review;
CREATE INDEX tasks_to_review ON tracked_tasks (completed_at, created_seq) WHERE manual_review_needed;
UPDATE alembic_version SET version_num='0007' WHERE alembic_version.version_num = '0006';
CREATE TABLE notices (
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    at BIGINT NOT NULL,
    by_whom TEXT NOT NULL,
    text TEXT NOT NULL,
    agent_id TEXT,
    workflow_id TEXT,
    task_id TEXT,
    about TEXT,
    carried_at BIGINT,
    created_seq BIGINT,
    PRIMARY KEY (id),
    FOREIGN KEY(agent_id) REFERENCES agents (id)
);
CREATE UNIQUE INDEX notices_by_creation ON notices (created_seq);
CREATE INDEX notices_by_age ON notices (at);
CREATE INDEX notices_by_agent ON notices (agent_id, carried_at);
CREATE INDEX notices_by_workflow ON notices (workflow_id, carried_at);
CREATE INDEX notices_by_subject ON notices (about);
ALTER TABLE notices ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE notices ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
UPDATE alembic_version SET version_num='0008' WHERE alembic_version.version_num = '0007';
ALTER TABLE plan_tasks ADD COLUMN failures BIGINT DEFAULT '0' NOT NULL;
ALTER TABLE plan_tasks ADD COLUMN max_attempts BIGINT DEFAULT '3' NOT NULL;
ALTER TABLE workspaces ADD COLUMN builds_on TEXT;
ALTER TABLE workspaces ADD COLUMN unmerged TEXT;
UPDATE alembic_version SET version_num='0009' WHERE alembic_version.version_num = '0008';
ALTER TABLE tokens ADD COLUMN is_person BOOLEAN DEFAULT false NOT NULL;
UPDATE alembic_version SET version_num='0010' WHERE alembic_version.version_num = '0009';
CREATE TABLE store_identity (
    id TEXT NOT NULL,
    secret TEXT NOT NULL,
    keyed_from BIGINT NOT NULL,
    mark TEXT NOT NULL
);
REVOKE ALL ON store_identity FROM PUBLIC;
UPDATE alembic_version SET version_num='0011' WHERE alembic_version.version_num = '0010';
ALTER TABLE plans ADD COLUMN requirements TEXT;
ALTER TABLE plans ADD COLUMN base_commit TEXT;
ALTER TABLE plans ADD COLUMN base_branch TEXT;
ALTER TABLE plan_tasks ADD COLUMN requirements TEXT;
ALTER TABLE plan_tasks ADD COLUMN waits_for TEXT;
CREATE INDEX plan_tasks_waiting ON plan_tasks (workflow_id, waits_for) WHERE waits_for IS NOT NULL;
ALTER TABLE plan_tasks ADD COLUMN active_ms BIGINT DEFAULT '0' NOT NULL;
ALTER TABLE plan_tasks ADD COLUMN active_since BIGINT;
CREATE INDEX plan_tasks_active ON plan_tasks (workflow_id, active_since) WHERE active_since IS NOT NULL;
ALTER TABLE tracked_workflows ADD COLUMN requirements TEXT;
ALTER TABLE tracked_workflows ADD COLUMN base_commit TEXT;
ALTER TABLE tracked_workflows ADD COLUMN base_branch TEXT;
CREATE TABLE proofs (
    id TEXT NOT NULL,
    check_name TEXT NOT NULL,
    verdict TEXT NOT NULL,
    inputs_digest TEXT NOT NULL,
    definition_digest TEXT NOT NULL,
    exit_code BIGINT,
    tests_run BIGINT,
    tests_skipped BIGINT,
    duration_ms BIGINT NOT NULL,
    host TEXT NOT NULL,
    project TEXT NOT NULL,
    tree TEXT NOT NULL,
    head TEXT,
    output_file TEXT,
    output_digest TEXT,
    created_at BIGINT NOT NULL,
    waived_by TEXT,
    waived_at BIGINT,
    waive_reason TEXT,
    asked_by TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX proofs_by_inputs ON proofs (inputs_digest, definition_digest);
CREATE INDEX proofs_by_age ON proofs (created_at);
CREATE INDEX proofs_by_subject ON proofs (asked_by);
CREATE TABLE proof_uses (
    subject_kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    proof_id TEXT NOT NULL,
    used_at BIGINT NOT NULL,
    PRIMARY KEY (subject_kind, subject_id, proof_id),
    FOREIGN KEY(proof_id) REFERENCES proofs (id)
);
CREATE INDEX proof_uses_by_proof ON proof_uses (proof_id);
CREATE TABLE approvals (
    id TEXT NOT NULL,
    subject_kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    workflow_id TEXT,
    digest TEXT NOT NULL,
    shown TEXT NOT NULL,
    status TEXT NOT NULL,
    asked_by TEXT NOT NULL,
    asked_at BIGINT NOT NULL,
    decided_by TEXT,
    decided_at BIGINT,
    method TEXT,
    comment TEXT,
    lasts_ms BIGINT,
    used_at BIGINT,
    waiting TEXT,
    created_seq BIGINT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX approvals_by_creation ON approvals (created_seq);
ALTER TABLE approvals ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE approvals ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
CREATE INDEX approvals_by_subject ON approvals (subject_kind, subject_id, created_seq);
CREATE INDEX approvals_by_workflow ON approvals (workflow_id);
CREATE INDEX approvals_by_status ON approvals (status, asked_at, created_seq);
CREATE UNIQUE INDEX approvals_pending ON approvals (subject_kind, subject_id) WHERE status = 'pending';
CREATE TABLE person_credentials (
    id TEXT NOT NULL,
    method TEXT NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    removed_at BIGINT,
    failed_tries BIGINT DEFAULT '0' NOT NULL,
    locked_until BIGINT,
    sign_count BIGINT DEFAULT '0' NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE review_rounds (
    subject_kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    rule TEXT NOT NULL,
    number BIGINT NOT NULL,
    tree TEXT,
    reviewer TEXT,
    passed BOOLEAN NOT NULL,
    findings TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (subject_kind, subject_id, rule, number)
);
CREATE TABLE spending (
    id TEXT NOT NULL,
    stream TEXT NOT NULL,
    number BIGINT NOT NULL,
    workflow_id TEXT,
    task_id TEXT,
    agent_id TEXT,
    vendor TEXT,
    model TEXT,
    tokens BIGINT DEFAULT '0' NOT NULL,
    usd_micros BIGINT DEFAULT '0' NOT NULL,
    source TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX spending_once ON spending (stream, number);
CREATE INDEX spending_by_workflow ON spending (workflow_id, task_id);
CREATE INDEX spending_by_time ON spending (at);
CREATE TABLE spending_totals (
    subject_kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    tokens BIGINT DEFAULT '0' NOT NULL,
    usd_micros BIGINT DEFAULT '0' NOT NULL,
    active_ms BIGINT DEFAULT '0' NOT NULL,
    reached_at BIGINT,
    PRIMARY KEY (subject_kind, subject_id)
);
CREATE INDEX spending_totals_reached ON spending_totals (reached_at) WHERE reached_at IS NOT NULL;
UPDATE alembic_version SET version_num='0012' WHERE alembic_version.version_num = '0011';
CREATE TABLE runner_runs (
    id TEXT NOT NULL,
    workflow_id TEXT,
    job TEXT,
    goal TEXT,
    session_id TEXT,
    repository_path TEXT NOT NULL,
    status TEXT NOT NULL,
    chain TEXT NOT NULL,
    settings TEXT NOT NULL,
    reason TEXT,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    PRIMARY KEY (id)
);
CREATE INDEX runner_runs_by_age ON runner_runs (created_at, id);
CREATE UNIQUE INDEX runner_runs_open_plan ON runner_runs (workflow_id) WHERE ended_at IS NULL;
CREATE TABLE runner_hosts (
    run_id TEXT NOT NULL,
    host TEXT NOT NULL,
    agents BIGINT NOT NULL,
    joined_at BIGINT NOT NULL,
    PRIMARY KEY (run_id, host),
    FOREIGN KEY(run_id) REFERENCES runner_runs (id)
);
CREATE INDEX runner_hosts_by_host ON runner_hosts (host);
CREATE TABLE attempts (
    id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    workflow_id TEXT,
    task_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    profile TEXT NOT NULL,
    vendor TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    claim_epoch BIGINT NOT NULL,
    stage TEXT NOT NULL,
    parked_for TEXT,
    reason TEXT,
    not_before BIGINT,
    host TEXT NOT NULL,
    boot_id TEXT,
    pid BIGINT,
    start_time TEXT,
    tree TEXT,
    branch TEXT,
    port BIGINT,
    vendor_session TEXT,
    starts BIGINT DEFAULT '0' NOT NULL,
    resumes BIGINT DEFAULT '0' NOT NULL,
    waits BIGINT DEFAULT '0' NOT NULL,
    stream_offset BIGINT DEFAULT '0' NOT NULL,
    stream_state TEXT NOT NULL,
    input_tokens BIGINT DEFAULT '0' NOT NULL,
    cached_tokens BIGINT DEFAULT '0' NOT NULL,
    output_tokens BIGINT DEFAULT '0' NOT NULL,
    usd_micros BIGINT DEFAULT '0' NOT NULL,
    usd_source TEXT,
    now_doing TEXT,
    next_prompt TEXT,
    outcome TEXT,
    started_at BIGINT,
    active_at BIGINT,
    cpu_ms BIGINT DEFAULT '0' NOT NULL,
    entries BIGINT DEFAULT '0' NOT NULL,
    exhausted BIGINT DEFAULT '0' NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    PRIMARY KEY (id),
    UNIQUE (task_id, number),
    FOREIGN KEY(run_id) REFERENCES runner_runs (id)
);
CREATE INDEX attempts_by_run ON attempts (run_id, created_at);
CREATE UNIQUE INDEX attempts_open ON attempts (task_id) WHERE ended_at IS NULL;
CREATE INDEX attempts_open_by_host ON attempts (host) WHERE ended_at IS NULL;
CREATE TABLE port_blocks (
    host TEXT NOT NULL,
    first_port BIGINT NOT NULL,
    tree TEXT NOT NULL,
    taken_at BIGINT NOT NULL,
    PRIMARY KEY (host, first_port),
    UNIQUE (host, tree)
);
UPDATE alembic_version SET version_num='0013' WHERE alembic_version.version_num = '0012';
CREATE TABLE landings (
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    workflow_id TEXT,
    task_id TEXT,
    title TEXT NOT NULL,
    host TEXT NOT NULL,
    repository_path TEXT NOT NULL,
    target TEXT NOT NULL,
    branch TEXT,
    source_branch TEXT,
    source_commit TEXT,
    base_commit TEXT,
    merge_commit TEXT,
    merge_tree TEXT,
    branch_commit TEXT,
    attempt_id TEXT,
    agent_id TEXT,
    status TEXT NOT NULL,
    problem TEXT,
    reason TEXT,
    returns BIGINT DEFAULT '0' NOT NULL,
    done_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    created_seq BIGINT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX landings_open_subject ON landings (subject_id) WHERE ended_at IS NULL;
CREATE INDEX landings_open_by_target ON landings (host, repository_path, target) WHERE ended_at IS NULL;
CREATE INDEX landings_by_subject ON landings (subject_id);
CREATE INDEX landings_by_workflow ON landings (workflow_id);
CREATE INDEX landings_by_age ON landings (created_at, created_seq);
CREATE UNIQUE INDEX landings_by_creation ON landings (created_seq);
ALTER TABLE landings ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE landings ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
CREATE TABLE branch_leases (
    host TEXT NOT NULL,
    repository_path TEXT NOT NULL,
    branch TEXT NOT NULL,
    holder TEXT,
    epoch BIGINT NOT NULL,
    until BIGINT NOT NULL,
    PRIMARY KEY (host, repository_path, branch)
);
UPDATE alembic_version SET version_num='0014' WHERE alembic_version.version_num = '0013';
CREATE TABLE rewinds (
    id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    undoes TEXT,
    undone_by TEXT,
    target TEXT NOT NULL,
    dependents TEXT NOT NULL,
    stage TEXT NOT NULL,
    host TEXT NOT NULL,
    digest TEXT NOT NULL,
    steps TEXT NOT NULL,
    results TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    PRIMARY KEY (id),
    UNIQUE (task_id, number)
);
CREATE INDEX rewinds_by_age ON rewinds (created_at, id);
CREATE UNIQUE INDEX rewinds_open ON rewinds (task_id) WHERE ended_at IS NULL;
CREATE TABLE rewind_tasks (
    rewind_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    role TEXT NOT NULL,
    first_attempt BIGINT NOT NULL,
    last_attempt BIGINT NOT NULL,
    checkpoint BIGINT,
    state_before TEXT,
    state_after TEXT,
    PRIMARY KEY (rewind_id, task_id),
    FOREIGN KEY(rewind_id) REFERENCES rewinds (id)
);
CREATE INDEX rewind_tasks_by_task ON rewind_tasks (task_id);
CREATE TABLE checkpoint_trees (
    checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    host TEXT NOT NULL,
    tree_path TEXT NOT NULL,
    snapshot TEXT NOT NULL,
    taken_at BIGINT NOT NULL,
    PRIMARY KEY (checkpoint_id)
);
CREATE INDEX checkpoint_trees_by_task ON checkpoint_trees (task_id, sequence);
CREATE INDEX checkpoint_trees_by_tree ON checkpoint_trees (host, tree_path, taken_at);
ALTER TABLE plan_tasks ADD COLUMN stale_input TEXT;
UPDATE alembic_version SET version_num='0015' WHERE alembic_version.version_num = '0014';
ALTER TABLE watches ADD COLUMN agent_id TEXT;
CREATE TABLE commit_links (
    task_id TEXT NOT NULL,
    commit_hash TEXT NOT NULL,
    tree_before TEXT NOT NULL,
    tree TEXT NOT NULL,
    known_by TEXT NOT NULL,
    patch_id TEXT,
    workflow_id TEXT,
    attempt_id TEXT,
    agent_id TEXT,
    is_likely BIGINT DEFAULT '0' NOT NULL,
    recorded_at BIGINT NOT NULL,
    PRIMARY KEY (task_id, commit_hash, tree_before, tree, known_by)
);
CREATE INDEX commit_links_by_commit ON commit_links (commit_hash);
CREATE INDEX commit_links_by_tree ON commit_links (tree);
CREATE INDEX commit_links_by_patch ON commit_links (patch_id);
UPDATE alembic_version SET version_num='0016' WHERE alembic_version.version_num = '0015';
ALTER TABLE proofs ADD COLUMN is_clean BIGINT DEFAULT '0' NOT NULL;
ALTER TABLE proofs ADD COLUMN pins_digest TEXT;
ALTER TABLE proofs ADD COLUMN guarded_digest TEXT;
CREATE TABLE guarded_starts (
    workflow_id TEXT NOT NULL,
    host TEXT NOT NULL,
    tree_path TEXT NOT NULL,
    files TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workflow_id)
);
UPDATE alembic_version SET version_num='0017' WHERE alembic_version.version_num = '0016';
ALTER TABLE plan_tasks ADD COLUMN completed_tree TEXT;
ALTER TABLE plan_tasks ADD COLUMN completed_head TEXT;
DROP TABLE branch_leases;
CREATE TABLE branch_leases (
    repository TEXT NOT NULL,
    branch TEXT NOT NULL,
    holder TEXT,
    epoch BIGINT NOT NULL,
    until BIGINT NOT NULL,
    PRIMARY KEY (repository, branch)
);
UPDATE alembic_version SET version_num='0018' WHERE alembic_version.version_num = '0017';
CREATE TABLE seals (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    seal TEXT NOT NULL,
    PRIMARY KEY (kind, id)
);
UPDATE alembic_version SET version_num='0019' WHERE alembic_version.version_num = '0018';
CREATE TABLE sealed_lists (
    kind TEXT NOT NULL,
    seal TEXT NOT NULL
);
CREATE INDEX ix_audit_approvals ON audit (substr(arguments, 1, 32)) WHERE tool IN ('give_approval', 'refuse_approval', 'use_approval');
UPDATE alembic_version SET version_num='0020' WHERE alembic_version.version_num = '0019';
ALTER TABLE runner_hosts ADD COLUMN seen_at BIGINT;
UPDATE alembic_version SET version_num='0021' WHERE alembic_version.version_num = '0020';
ALTER TABLE spending ADD COLUMN run_id TEXT;
UPDATE spending SET run_id = (SELECT run_id FROM attempts WHERE attempts.id = substr(stream, 9))
         WHERE stream LIKE 'attempt:%';
CREATE INDEX spending_by_run ON spending (run_id);
UPDATE alembic_version SET version_num='0022' WHERE alembic_version.version_num = '0021';
ALTER TABLE notices ADD COLUMN attempt_id TEXT;
ALTER TABLE notices ADD COLUMN start BIGINT;
CREATE INDEX notices_by_task ON notices (task_id, carried_at);
ALTER TABLE attempts ADD COLUMN interrupted_by TEXT;
UPDATE alembic_version SET version_num='0023' WHERE alembic_version.version_num = '0022';
CREATE TABLE review_comments (
    id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    attempt_id TEXT,
    path TEXT NOT NULL,
    side TEXT NOT NULL,
    line BIGINT NOT NULL,
    line_text TEXT NOT NULL,
    text TEXT NOT NULL,
    tree TEXT NOT NULL,
    by_whom TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    sent_at BIGINT,
    notice_id TEXT,
    closed_as TEXT,
    closed_by TEXT,
    closed_at BIGINT,
    created_seq BIGINT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX review_comments_by_creation ON review_comments (created_seq);
CREATE INDEX review_comments_by_task ON review_comments (task_id, created_seq);
ALTER TABLE review_comments ALTER COLUMN created_seq SET NOT NULL;
ALTER TABLE review_comments ALTER COLUMN created_seq SET DEFAULT nextval('creation_order');
UPDATE alembic_version SET version_num='0024' WHERE alembic_version.version_num = '0023';
CREATE TABLE inbox_marks (
    item TEXT NOT NULL,
    seen_since BIGINT NOT NULL,
    snoozed_until BIGINT,
    cleared_at BIGINT,
    owner TEXT,
    note TEXT,
    marked_by TEXT NOT NULL,
    marked_at BIGINT NOT NULL,
    PRIMARY KEY (item)
);
UPDATE alembic_version SET version_num='0025' WHERE alembic_version.version_num = '0024';
CREATE TABLE notifications (
    channel_id TEXT NOT NULL,
    thing TEXT NOT NULL,
    kind TEXT NOT NULL,
    since BIGINT NOT NULL,
    message_id TEXT,
    claimed_by TEXT,
    claimed_until BIGINT,
    told_at BIGINT,
    PRIMARY KEY (channel_id, thing)
);
CREATE INDEX notifications_by_message ON notifications (message_id);
CREATE TABLE notification_channels (
    channel_id TEXT NOT NULL,
    failures BIGINT DEFAULT '0' NOT NULL,
    failing_since BIGINT,
    problem TEXT,
    next_at BIGINT,
    told_at BIGINT,
    looked_seq BIGINT DEFAULT '0' NOT NULL,
    looked_at BIGINT DEFAULT '0' NOT NULL,
    PRIMARY KEY (channel_id)
);
CREATE TABLE visits (
    person TEXT NOT NULL,
    seen_at BIGINT NOT NULL,
    left_at BIGINT,
    PRIMARY KEY (person)
);
UPDATE alembic_version SET version_num='0026' WHERE alembic_version.version_num = '0025';
CREATE TABLE wishes (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    source TEXT NOT NULL,
    source_ref TEXT,
    repository_path TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    planning_id TEXT,
    branch TEXT NOT NULL,
    options TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    returned_plan TEXT,
    started_at BIGINT,
    review_tasks TEXT DEFAULT '[]' NOT NULL,
    findings TEXT DEFAULT '[]' NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (plan_id),
    UNIQUE (planning_id)
);
CREATE INDEX wishes_by_repository ON wishes (repository_path, created_at);
UPDATE alembic_version SET version_num='0027' WHERE alembic_version.version_num = '0026';
ALTER TABLE attempts ADD COLUMN wish TEXT;
UPDATE alembic_version SET version_num='0028' WHERE alembic_version.version_num = '0027';
