/** A modal dialog. It uses the browser's <dialog>, which keeps the focus and closes on Esc. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

export function Dialog({ title, onClose, children, wide }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const box = useRef<HTMLDialogElement>(null);
  const before = useRef<Element | null>(document.activeElement);
  // Before anything else that is typed arrives.
  useLayoutEffect(() => {
    box.current?.showModal();
    return () => {
      if (before.current instanceof HTMLElement && before.current.isConnected) before.current.focus();
    };
  }, []);
  return (
    <dialog
      ref={box}
      class={wide ? "dialog wide" : "dialog"}
      aria-label={title}
      onClose={onClose}
      onCancel={onClose}
      onClick={(event) => {
        if (event.target === box.current) onClose();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        (event.target as HTMLElement).closest("form")?.requestSubmit();
      }}
    >
      <div class="dialog-inner">
        <div class="dialog-head">
          <h2>{title}</h2>
          <button type="button" class="button tiny" onClick={onClose}>
            Close
          </button>
        </div>
        {children}
      </div>
    </dialog>
  );
}
