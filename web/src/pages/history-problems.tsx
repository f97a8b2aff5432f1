/** Issues of all runs that need a person. */

import { supportsParameter } from "../data/openapi";
import { useResource } from "../data/resource";
import type { Issue } from "../data/shapes";
import { query, withQuery } from "../router";
import { Empty, Loaded, humanize } from "../ui/parts";
import { GrowingList, ISSUE_TYPES, IssueCard } from "./run-notes";
import { Choice, useQueryText } from "./runs";

export function Problems() {
  const [agent, setAgent] = useQueryText("agent");
  const wanted = new URLSearchParams({ state: query.value.get("state") || "open", limit: "100" });
  for (const name of ["type", "agent", "run", "order", "cursor"]) {
    const value = query.value.get(name);
    if (value) wanted.set(name, value);
  }
  const list = useResource<{ blockers: Issue[]; total: number; cursor?: string | null }>(`/blockers?${wanted}`, (event) => event.type.startsWith("issue:"));
  return (
    <>
      <form class="filters" role="search" aria-label="Filter problems" onSubmit={(event) => event.preventDefault()}>
        <Choice name="state" label="State" none="Open" options={[["resolved", "Resolved"], ["all", "Open and resolved"]]} />
        <Choice name="type" label="Type" none="All types" options={ISSUE_TYPES.map((each) => [each, humanize(each)])} />
        <input type="search" class="short" data-search placeholder="Agent" aria-label="Agent" value={agent} onInput={(event) => setAgent(event.currentTarget.value)} />
        {query.value.has("run") && (
          <a class="button" href={withQuery({ run: null })}>
            Only one run ×
          </a>
        )}
        {supportsParameter("/blockers", "order") && <Choice name="order" label="Order" none="Newest first" options={[["asc", "Oldest first"]]} />}
      </form>
      <Loaded of={list}>
        {(data) => {
          const sorted = data.blockers;
          return sorted.length === 0 ? (
            <Empty title={query.value.has("type") || query.value.has("agent") ? "No matching blockers" : "Nothing is blocked"}>
              <p>Problems that need a person appear here.</p>
            </Empty>
          ) : (
            <>
              <GrowingList items={sorted} total={data.total} noun="blocker">{(each) => <IssueCard key={each.id} issue={each} onDone={list.reload} />}</GrowingList>
              <div class="pager">
                {query.value.has("cursor") && <a class="button" href={withQuery({ cursor: null })}>First page</a>}
                {data.cursor && <a class="button" href={withQuery({ cursor: data.cursor })} rel="next">Next page</a>}
              </div>
            </>
          );
        }}
      </Loaded>
    </>
  );
}
