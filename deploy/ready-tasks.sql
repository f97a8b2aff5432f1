-- How many tasks a worker could start or continue now, in PostgreSQL: what KEDA scales by in deploy/kubernetes.yaml.
-- For workers with `--labels gpu,docker` write NOT IN ('gpu', 'docker'): tasks that require more are not for them.
-- A worker that is started too often finds nothing to do and ends, so approvals and budgets need not be exact here.
WITH now AS (
    SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) AS ms
), tasks AS (
    SELECT p.id AS plan, p.max_parallel_tasks AS most,
           t.claimed_by IS NOT NULL AND l.until >= (SELECT ms FROM now) AS is_active,
           (t.claimed_by IS NULL AND t.status IN ('pending', 'failed') OR l.until < (SELECT ms FROM now))
           AND t.failures < t.max_attempts
           AND CASE WHEN t.is_explicit THEN t.open_dependencies = 0 ELSE NOT EXISTS (
               SELECT 1 FROM plan_tasks b
                WHERE b.workflow_id = p.id AND b.status NOT IN ('completed', 'skipped') AND b.sequence = (
                      SELECT max(c.sequence) FROM plan_tasks c
                       WHERE c.workflow_id = p.id AND c.sequence < t.sequence)) END
           AND NOT EXISTS (SELECT 1 FROM approvals a
                            WHERE a.status = 'pending' AND a.subject_id IN (p.id, t.id))
           AND NOT EXISTS (SELECT 1 FROM plan_capabilities c
                            WHERE c.task_id = t.id AND c.capability NOT IN ('')) AS is_ready
      FROM plans p
      JOIN plan_tasks t ON t.workflow_id = p.id AND t.status NOT IN ('completed', 'skipped')
      LEFT JOIN leases l ON l.what = t.id AND t.claimed_by IS NOT NULL
     WHERE p.status IN ('ready', 'in_progress') AND NOT EXISTS (
           SELECT 1 FROM runner_runs r
            WHERE r.workflow_id = p.id AND r.ended_at IS NULL AND r.status <> 'active')
), plans_with_room AS (
    SELECT least(count(*) FILTER (WHERE is_ready), greatest(most - count(*) FILTER (WHERE is_active), 0)) AS ready
      FROM tasks GROUP BY plan, most
)
SELECT coalesce((SELECT sum(ready) FROM plans_with_room), 0)
     + (SELECT count(*) FROM attempts
         WHERE stage = 'parked' AND parked_for = 'limit' AND not_before <= (SELECT ms FROM now)) AS tasks;
