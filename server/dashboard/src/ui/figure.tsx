import type { ComponentChildren } from 'preact';
import { useId, useState } from 'preact/hooks';
import { Scroll } from './basics';

export interface FigureTable {
  caption: string;
  head: string[];
  rows: (string | number)[][];
}

interface FigureProps {
  title: string;
  /** The content of the picture, in words. */
  summary: string;
  legend?: ComponentChildren;
  /** The picture's figures; made only once somebody asks for them. */
  table: () => FigureTable;
  wide?: boolean;
  children: ComponentChildren;
}

/** A picture with its text alternatives. */
export function Figure({
  title,
  summary,
  legend,
  table,
  wide,
  children,
}: FigureProps) {
  const id = useId();
  return (
    <figure
      class={wide ? 'card figure wide' : 'card figure'}
      aria-labelledby={`${id}-title`}
    >
      <figcaption>
        <h2 id={`${id}-title`}>{title}</h2>
        {legend && <span class="legend">{legend}</span>}
      </figcaption>
      {children}
      <p class="sr-only">{summary}</p>
      <Numbers table={table} title={title} />
    </figure>
  );
}

function Numbers({
  table,
  title,
}: {
  table: () => FigureTable;
  title: string;
}) {
  const [open, setOpen] = useState(false);
  return (
    <details
      class="numbers"
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>
        Numbers<span class="sr-only"> of {title}</span>
      </summary>
      {open && <FigureNumbers table={table()} />}
    </details>
  );
}

function FigureNumbers({ table }: { table: FigureTable }) {
  return (
    <Scroll label={table.caption}>
      <table>
        <caption class="sr-only">{table.caption}</caption>
        <thead>
          <tr>
            {table.head.map((cell) => (
              <th scope="col" key={cell}>
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={column} class={column > 0 ? 'number' : undefined}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
