/** Why things are as they are: decisions of all runs, to be searched. */

import { useResource } from "../data/resource";
import type { Decision } from "../data/shapes";
import { query, withQuery } from "../router";
import { Empty, Loaded, many, words } from "../ui/parts";
import { CATEGORIES, DecisionCard, Growing } from "./run-notes";
import { Choice, useTyped } from "./runs";

export function Decisions() {
  const [typed, setTyped] = useTyped("q");
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
        <input type="search" data-search placeholder="Words in question, choice or reasons" aria-label="Words in question, choice or reasons" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <Choice name="category" label="Category" none="Every category" options={CATEGORIES.map((each) => [each, words(each)])} />
      </form>
      <Loaded of={list}>
        {(data) =>
          data.decisions.length === 0 ? (
            <Empty title={query.value.has("q") || query.value.has("category") ? "No decision matches" : "No decision was recorded yet"}>
              <p>Agents record a decision with the options they weighed and their reasons.</p>
            </Empty>
          ) : (
            <>
              <p class="faint list-note">{many(data.total, "decision")}</p>
              <Growing items={data.decisions} total={data.total} noun="decision">{(each) => <DecisionCard key={each.id} decision={each} />}</Growing>
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
