import { useEffect, useRef } from 'preact/hooks';

export interface Mark {
  /** Lines count from 1. */
  line: number;
  text: string;
}

interface EditorProps {
  id: string;
  label: string;
  value: string;
  marks: Mark[];
  describedBy: string;
  onInput: (text: string) => void;
}

/** A text field with numbered lines, of which some are marked. */
export function Editor({
  id,
  label,
  value,
  marks,
  describedBy,
  onInput,
}: EditorProps) {
  const gutter = useRef<HTMLOListElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const marked = new Map(marks.map((mark) => [mark.line, mark.text]));
  const lines = value.split('\n').length;

  const scroll = () => {
    if (gutter.current && area.current) {
      gutter.current.style.transform = `translateY(${-area.current.scrollTop}px)`;
    }
  };
  useEffect(scroll, [value]);

  return (
    <div class="editor">
      <div class="gutter" aria-hidden="true">
        <ol ref={gutter}>
          {Array.from({ length: lines }, (_, index) => (
            <li
              key={index}
              class={marked.has(index + 1) ? 'marked' : undefined}
              title={marked.get(index + 1)}
            >
              {index + 1}
            </li>
          ))}
        </ol>
      </div>
      <textarea
        id={id}
        ref={area}
        aria-label={label}
        aria-invalid={marks.length > 0}
        aria-describedby={describedBy}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        wrap="off"
        rows={24}
        value={value}
        onScroll={scroll}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </div>
  );
}

/** Puts the cursor on a line of the editor. */
export function goToLine(id: string, line: number): void {
  const area = document.getElementById(id);
  if (!(area instanceof HTMLTextAreaElement)) return;
  const lines = area.value.split('\n');
  const begin = lines
    .slice(0, line - 1)
    .reduce((sum, text) => sum + text.length + 1, 0);
  area.focus();
  area.setSelectionRange(begin, begin + (lines[line - 1] ?? '').length);
  const height = area.scrollHeight / Math.max(1, lines.length);
  area.scrollTop = Math.max(0, (line - 6) * height);
}
