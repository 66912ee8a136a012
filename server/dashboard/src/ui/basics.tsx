import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Outcome } from '../api/types';
import type { ApiError } from '../api/errors';
import { stateWord, tone, TONE_SIGN } from '../model/job_state';

export function StateBadge({
  state,
  outcome,
}: {
  state: string | undefined;
  outcome?: Outcome;
}) {
  const kind = tone(state, outcome);
  return (
    <span class={`badge ${kind}`}>
      <span aria-hidden="true">{TONE_SIGN[kind]}</span>{' '}
      {stateWord(state, outcome)}
    </span>
  );
}

export function Progress({
  share,
  label,
}: {
  share: number | null;
  label: string;
}) {
  const value = share === null ? 0 : Math.round(share * 1000) / 10;
  return (
    <span
      class="progress"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={share === null ? undefined : value}
    >
      <span style={{ width: `${value}%` }} />
    </span>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <p class="note loading" role="status">
      Loading {what}…
    </p>
  );
}

export function Empty({
  title,
  children,
}: {
  title: string;
  children?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <svg aria-hidden="true" viewBox="0 0 48 48" width="48" height="48">
        <path d="M8 8v22c0 6 4 10 32 10" />
        <circle cx="14" cy="26" r="3" />
        <circle cx="24" cy="34" r="3" />
      </svg>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function ErrorNote({
  error,
  retry,
}: {
  error: ApiError | string;
  retry?: () => void;
}) {
  return (
    <div class="note error" role="alert">
      <span>{typeof error === 'string' ? error : error.message}</span>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

interface DialogProps {
  title: string;
  open: boolean;
  onClose: () => void;
  children: ComponentChildren;
}

/** The browser's own modal dialog: it keeps the focus inside and Esc closes it. */
export function Dialog({ title, open, onClose, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current;
    if (!dialog) return;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);
  return (
    <dialog ref={ref} onClose={onClose} aria-labelledby="dialog-title">
      {open && (
        <>
          <h2 id="dialog-title">{title}</h2>
          {children}
        </>
      )}
    </dialog>
  );
}

/** A figure and what it is measured in. */
export function Stat({
  label,
  value,
  note,
}: {
  label: string;
  value: ComponentChildren;
  note?: ComponentChildren;
}) {
  return (
    <div class="stat">
      <dt>{label}</dt>
      <dd>
        <span class="value">{value}</span>
        {note && <span class="note-line">{note}</span>}
      </dd>
    </div>
  );
}

/** A table that scrolls by itself where it is too wide, also by keyboard. */
export function Scroll({
  label,
  children,
}: {
  label: string;
  children: ComponentChildren;
}) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      {children}
    </div>
  );
}

export function Labels({
  labels,
}: {
  labels: Record<string, string> | undefined;
}) {
  const entries = Object.entries(labels ?? {});
  if (entries.length === 0) return null;
  return (
    <span class="labels">
      {entries.map(([key, value]) => (
        <span class="chip" key={key}>
          {key}
          {value && `=${value}`}
        </span>
      ))}
    </span>
  );
}
