/** Approvals that were asked for, and what was decided. */

import { useResource } from "../data/resource";
import { query } from "../router";
import { Ago, Empty, humanize, Loaded } from "../ui/parts";
import { State } from "../ui/state";
import { GrowingList } from "./run-notes";
import { Choice } from "./runs";

export interface Approval {
  id: string;
  kind: string;
  subject_id: string;
  workflow_id?: string | null;
  title?: string | null;
  digest: string;
  status: string;
  asked_by: string;
  asked_by_name?: string | null;
  asked_at: string;
  decided_by?: string | null;
  decided_at?: string | null;
  method?: string | null;
  comment?: string | null;
  expires_at?: string | null;
  used_at?: string | null;
}

const STATUSES = ["given", "refused", "used", "stale", "expired", "all"];
const WORDS: Record<string, string> = { pending: "waits for you", given: "approved", used: "approved and used", stale: "outdated" };
export const isOfApproval = (event: { type: string }): boolean => event.type.startsWith("approval:");

export function Approvals() {
  const status = query.value.get("status") || "pending";
  const list = useResource<{ approvals: Approval[]; total?: number }>(status === "all" ? "/approvals?all=true" : `/approvals?status=${encodeURIComponent(status)}`, isOfApproval);
  return (
    <>
      <form class="filters" role="search" aria-label="Filter approvals" onSubmit={(event) => event.preventDefault()}>
        <Choice name="status" label="Status" none="Waiting for you" options={STATUSES.map((each) => [each, humanize(WORDS[each] ?? each)])} />
      </form>
      <Loaded of={list}>
        {(data) =>
          data.approvals.length === 0 ? (
            <Empty title={status === "pending" ? "Nothing waits for your approval" : "No such approvals"}>
              <p>Plans, tasks and steps that require a person appear here.</p>
            </Empty>
          ) : (
            <GrowingList items={data.approvals} total={data.total ?? data.approvals.length} noun="approval">{(each) => <ApprovalCard key={each.id} approval={each} />}</GrowingList>
          )
        }
      </Loaded>
    </>
  );
}

export function ApprovalState({ approval }: { approval: Approval }) {
  const looks: Record<string, string> = { pending: "manual_review", given: "passed", used: "completed", refused: "failed", stale: "skipped", expired: "skipped" };
  return <State status={looks[approval.status] ?? approval.status} word={WORDS[approval.status] ?? approval.status} />;
}

function ApprovalCard({ approval }: { approval: Approval }) {
  return (
    <li class="card" data-item>
      <div class="card-head">
        <ApprovalState approval={approval} />
        <h3>
          <a href={`/approvals/${approval.id}`} data-main>
            {humanize(approval.kind)}: {approval.title ?? approval.subject_id}
          </a>
        </h3>
        <span class="faint">
          <Ago at={approval.asked_at} />
        </span>
      </div>
      <p class="faint">Asked by {approval.asked_by_name ?? approval.asked_by}</p>
    </li>
  );
}
