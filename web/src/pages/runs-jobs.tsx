/** The jobs that this project defines, with those that cannot be read. */

import { anyOf, useResource } from "../data/resource";
import { Empty, Loaded, Prose, Section } from "../ui/parts";

interface JobsAnswer {
  jobs: { name: string; summary: string; description?: string | null; workflows: { name: string; summary: string }[] }[];
  errors?: { job_name: string; job_dir?: string; error: string }[];
}

export function JobDefinitions() {
  const jobs = useResource<JobsAnswer>("/jobs", anyOf("session"));
  return (
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
  );
}
