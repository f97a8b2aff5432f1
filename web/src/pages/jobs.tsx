/** Job definitions and job sessions. */

import { anyOf, useResource } from "../data/resource";
import type { RunsAnswer } from "../data/shapes";
import { Empty, Loaded, Prose, Section } from "../ui/parts";
import { RunList } from "../ui/runlist";

interface JobsAnswer {
  jobs: { name: string; summary: string; description?: string | null; workflows: { name: string; summary: string }[] }[];
  errors?: { job_name: string; job_dir?: string; error: string }[];
}

export default function Jobs() {
  const jobs = useResource<JobsAnswer>("/jobs", anyOf("session"));
  const sessions = useResource<RunsAnswer>("/runs?kind=job&limit=50", anyOf("session", "review"));
  return (
    <div class="page">
      <h1>Jobs</h1>
      <Section title="Sessions" count={sessions.data?.total} actions={<a href="/runs?kind=job">Search sessions</a>}>
        <Loaded of={sessions}>
          {(data) => (data.runs.length === 0 ? <Empty title="No job has been started yet" /> : <RunList runs={data.runs} label="Sessions" />)}
        </Loaded>
      </Section>
      <Section title="Definitions" count={jobs.data?.jobs.length}>
        <Loaded of={jobs}>
          {(data) => (
            <>
              {data.errors?.map((error) => (
                <div class="trouble" role="alert">
                  <p class="empty-title">{error.job_name} cannot be read</p>
                  <p>{error.error}</p>
                </div>
              ))}
              {data.jobs.length === 0 ? (
                <Empty title="No jobs defined">
                  <p>
                    A job is a folder under <code>.deepwork/jobs</code> with a <code>job.yml</code>.
                  </p>
                </Empty>
              ) : (
                <ul class="cards" aria-label="Jobs">
                  {data.jobs.map((job) => (
                    <li class="card" key={job.name} data-item>
                      <div class="card-head">
                        <h3>{job.name}</h3>
                      </div>
                      <Prose text={job.summary} />
                      <ul class="plain">
                        {job.workflows.map((workflow) => (
                          <li>
                            <code>{workflow.name}</code> <span class="faint">{workflow.summary}</span>
                          </li>
                        ))}
                      </ul>
                    </li>
                  ))}
                </ul>
              )}
            </>
          )}
        </Loaded>
      </Section>
    </div>
  );
}
