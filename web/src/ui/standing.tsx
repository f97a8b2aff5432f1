/** Shows what every interface says about a thing: its state, why it has it, and the command that moves it on. */

import type { StateFields } from "../data/shapes";
import { reveal } from "../view/reveal";
import { Copy } from "./parts";
import { State } from "./state";

export function Standing({ of, status, isSmall }: { of: StateFields; status?: string; isSmall?: boolean }) {
  return (
    <>
      <State status={of.state ?? status ?? "pending"} isSmall={isSmall} />
      {of.because && <span class="because faint" title={reveal(of.because)}>{reveal(of.because.replaceAll("_", " "))}</span>}
    </>
  );
}

/** The command that a person runs to move a thing on; nothing if nothing is to be done. */
export function Next({ of }: { of: StateFields }) {
  if (!of.next) return null;
  return (
    <p class="next">
      <code>{reveal(of.next)}</code> <Copy small label="Copy command" text={of.next} />
    </p>
  );
}
