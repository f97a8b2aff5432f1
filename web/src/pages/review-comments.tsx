/** A comment with its state, and what a person can do with it. */

import { begin, type Act } from "../acts";
import { callTool } from "../data/api";
import { me } from "../data/live";
import type { Comment } from "../data/shapes-review";
import { Ago } from "../ui/parts";
import { State } from "../ui/state";
import { reveal } from "../view/reveal";

const LOOKS: Record<Comment["state"], [status: string, word: string]> = {
  open: ["waiting", "not heard yet"],
  delivered: ["in_progress", "the agent heard it"],
  fixed: ["resolved", "fixed"],
  withdrawn: ["skipped", "withdrawn"],
};

const close = (state: "fixed" | "withdrawn", label: string, onClosed: () => void): Act<Comment> => ({
  id: `review.comment.${state}`,
  label,
  applies: () => true,
  stays: true,
  run: async (subject, _, { key, proof }) => {
    await callTool("close_comment", { comment_id: subject.id, state, ...(proof ? { proof } : {}) }, key);
    onClosed();
    return { text: state === "fixed" ? `Fixed: ${subject.title}.` : `Withdrawn: ${subject.title}.` };
  },
});

export function CommentCard({ comment, quotes, onClosed }: { comment: Comment; quotes?: boolean; onClosed: () => void }) {
  const [status, word] = LOOKS[comment.state];
  const isOpen = comment.state === "open" || comment.state === "delivered";
  const isKept = comment.state === "open" && !comment.sent_at;
  const subject = { kind: "comment", id: comment.id, title: `${comment.path}:${comment.line}`, thing: comment };
  const canClose = isOpen && me.value.actions?.includes("close_comment");
  return (
    <article class="review-comment" aria-label={`Comment on line ${comment.line}`}>
      <p class="review-comment-head">
        <strong>{reveal(comment.by.replace(/^human:/, ""))}</strong>
        <span class="faint"><Ago at={comment.created_at} /></span>
        <State status={isKept ? "paused" : status} word={isKept ? "kept, not sent" : word} isSmall />
      </p>
      {quotes && <p class="review-quoted"><code>{comment.path}:{comment.line}</code> <code>{reveal(comment.line_text)}</code></p>}
      <p class="review-comment-text">{reveal(comment.text)}</p>
      {canClose && (
        <div class="actions">
          {!isKept && <button type="button" class="button tiny" onClick={() => begin(close("fixed", "Mark as fixed", onClosed), [subject])}>Mark as fixed</button>}
          <button type="button" class="button tiny" onClick={() => begin(close("withdrawn", "Withdraw", onClosed), [subject])}>Withdraw</button>
        </div>
      )}
    </article>
  );
}
