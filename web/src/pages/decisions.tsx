/** Decisions of all runs, with search. */

import { useResource } from "../data/resource";
import type { Decision } from "../data/shapes";
import { query, withQuery } from "../router";
import { Empty, Loaded, formatCount, humanize } from "../ui/parts";
import { CATEGORIES, DecisionCard, GrowingList } from "./run-notes";
import { Choice, useQueryText } from "./runs";

export default function Decisions() {
  const [typed, setTyped] = useQueryText("q");
  const wanted = new URLSearchParams({ limit: "100" });
  for (const name of ["q", "category", "cursor"]) {
    const value = query.value.get(name);
    if (value) wanted.set(name, value);
  }
  const list = useResource<{ decisions: Decision[]; total: number; cursor?: string | null }>(`/decisions?${wanted}`, (event) => event.type === "decision:created");
  return (
    <div class="page">
      <h1>Decisions</h1>
      <form class="filters" role="search" aria-label="Search decisions" onSubmit={(event) => event.preventDefault()}>
        <input type="search" data-search placeholder="Search question, choice or reasons" aria-label="Search question, choice or reasons" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <Choice name="category" label="Category" none="All categories" options={CATEGORIES.map((each) => [each, humanize(each)])} />
      </form>
      <Loaded of={list}>
        {(data) =>
          data.decisions.length === 0 ? (
            <Empty title={query.value.has("q") || query.value.has("category") ? "No matching decisions" : "No decisions recorded yet"}>
              <p>Agents record a decision with the options they considered and their reasons.</p>
            </Empty>
          ) : (
            <>
              <p class="faint list-note">{formatCount(data.total, "decision")}</p>
              <GrowingList items={data.decisions} total={data.total} noun="decision">{(each) => <DecisionCard key={each.id} decision={each} />}</GrowingList>
              <div class="pager">
                {query.value.has("cursor") && <a class="button" href={withQuery({ cursor: null })}>First page</a>}
                {data.cursor && <a class="button" href={withQuery({ cursor: data.cursor })} rel="next">Next page</a>}
              </div>
            </>
          )
        }
      </Loaded>
    </div>
  );
}
