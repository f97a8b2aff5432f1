/** Why code exists: a commit, a range, a file or a line of it. */

import { useEffect, useState } from "preact/hooks";
import { useResource } from "../data/resource";
import type { WhyAnswer } from "../data/shapes";
import { go, query } from "../router";
import { Empty, Loaded } from "../ui/parts";
import { WhyView, whyAddress } from "../ui/why";
import { formatQuestion, parseQuestion, whyQuery, type WhyQuestion } from "../view/why";

function readQuestion(): WhyQuestion {
  const given = query.value;
  return { path: given.get("path") ?? undefined, line: Number(given.get("line")) || undefined, commit: given.get("commit") ?? undefined };
}

export default function WhyPage() {
  const question = readQuestion();
  const asked = formatQuestion(question);
  const [typed, setTyped] = useState(asked);
  useEffect(() => setTyped(asked), [asked]);
  const answer = useResource<WhyAnswer>(asked ? `/why?${whyQuery(question)}` : null);
  const ask = (event: Event) => {
    event.preventDefault();
    const next = parseQuestion(typed);
    if (next) go(whyAddress(next));
  };
  return (
    <div class="page why">
      <h1>Why</h1>
      <form class="filters" role="search" aria-label="Ask why code exists" onSubmit={ask}>
        <input type="search" data-search placeholder="Commit, A..B, FILE or FILE:LINE" aria-label="Commit, range, file or line" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} spellcheck={false} />
        <button type="submit" class="button">Ask</button>
      </form>
      {question.path && question.commit && <p class="faint">As in <code>{question.commit}</code></p>}
      {asked ? (
        <Loaded of={answer}>{(data) => <WhyView answer={data} />}</Loaded>
      ) : (
        <Empty title="Which task made this?">
          <p>Name a commit, a range, a file or a line. Every line number of a diff answers it, too.</p>
        </Empty>
      )}
    </div>
  );
}
