import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { RankSnapshot } from '../api/types';
import { heatMap, type HeatMap } from '../model/heat';
import { count, words } from '../model/format';
import { lowerBound } from '../model/thin';
import { roundTicks } from '../model/ticks';
import { useStore } from '../model/store';
import { Figure } from './figure';
import type { Zoom } from './plot';
import { cssColor, dark } from './theme';

interface HeatMapProps {
  snapshots: readonly RankSnapshot[];
  version: number;
  zoom: Zoom;
  lastStep: number;
}

const GAP = 10;

interface Layout {
  width: number;
  height: number;
  label: number;
  /** Top of each row, and its height. */
  tops: number[];
  row: number;
}

/** One row per bond of every layer; classes of layers stand apart. */
function layout(map: HeatMap, width: number): Layout {
  const row =
    map.rows.length > 160
      ? 3
      : map.rows.length > 90
        ? 4
        : map.rows.length > 50
          ? 5
          : 7;
  const tops: number[] = [];
  let y = 4;
  map.rows.forEach((entry, index) => {
    const before = map.rows[index - 1];
    if (before && before.layerClass !== entry.layerClass) y += GAP;
    else if (before && before.layer !== entry.layer) y += 2;
    tops.push(y);
    y += row;
  });
  return { width, height: y + 24, label: width < 520 ? 92 : 220, tops, row };
}

/** Ranks of all bonds over steps, relative to where they began. */
export function RankHeatMap({
  snapshots,
  version,
  zoom,
  lastStep,
}: HeatMapProps) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [told, setTold] = useState('');
  const isDark = useStore(dark);
  const map = useMemo(() => heatMap(snapshots), [version]);
  const first = map.steps[0] ?? 0;
  const from = zoom ? zoom[0] : first;
  const to = Math.max(
    from + 1,
    zoom ? zoom[1] : Math.max(lastStep, map.steps[map.steps.length - 1] ?? 1),
  );
  const plan = useMemo(() => layout(map, width), [map, width]);

  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (canvas.current && width > 0) paint(canvas.current, map, plan, from, to);
  }, [map, plan, from, to, isDark]);

  const onMove = (event: MouseEvent) => {
    const rect = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const y = event.clientY - rect.top;
    const row = plan.tops.findIndex(
      (top) => y >= top && y < top + plan.row + 1,
    );
    const entry = map.rows[row];
    const share =
      (event.clientX - rect.left - plan.label) / (plan.width - plan.label);
    if (!entry || share < 0 || share > 1) return setTold('');
    const column = columnAt(map, from + share * (to - from));
    const rank = map.ranks[row * map.steps.length + column];
    setTold(
      `${entry.layer}, bond ${entry.bond + 1} of ${entry.bonds}, step ${count(
        map.steps[column] ?? 0,
      )}: rank ${rank} of ${entry.initial}`,
    );
  };

  const last = snapshots[snapshots.length - 1];
  return (
    <Figure
      wide
      title="Ranks per layer and bond"
      summary={`Ranks of ${last?.layers?.length ?? 0} layers, ${map.rows.length} bonds, in ${
        map.steps.length
      } snapshots. The table below lists where each began and where it is now.`}
      legend={
        <>
          <span class="key">
            0 <i class="ramp" aria-hidden="true" /> initial rank
          </span>
          <span class="readout" aria-hidden="true">
            {told}
          </span>
        </>
      }
      table={() => ({
        caption: 'Ranks per layer: at the beginning and now',
        head: ['layer', 'class', 'initial', 'now'],
        rows: (last?.layers ?? []).map((layer) => [
          layer.layer ?? '',
          words(layer.layerClass),
          (layer.initial ?? []).join(' '),
          (layer.current ?? []).join(' '),
        ]),
      })}
    >
      <div class="heat" ref={box} aria-hidden="true">
        <canvas
          ref={canvas}
          onMouseMove={onMove}
          onMouseLeave={() => setTold('')}
        />
      </div>
    </Figure>
  );
}

/** The snapshot that holds at `step`. */
function columnAt(map: HeatMap, step: number): number {
  const at = lowerBound(map.steps, step + 1e-9);
  return Math.max(0, Math.min(map.steps.length - 1, at - 1));
}

function rgb(name: string): [number, number, number] {
  const parts = cssColor(name).match(/[0-9a-f]{2}/gi) ?? ['0', '0', '0'];
  return [0, 1, 2].map((i) => parseInt(parts[i] ?? '0', 16)) as [
    number,
    number,
    number,
  ];
}

function paint(
  canvas: HTMLCanvasElement,
  map: HeatMap,
  plan: Layout,
  from: number,
  to: number,
): void {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(plan.width * ratio);
  canvas.height = Math.round(plan.height * ratio);
  canvas.style.width = `${plan.width}px`;
  canvas.style.height = `${plan.height}px`;
  const context = canvas.getContext('2d');
  if (!context || map.rows.length === 0) return;
  context.scale(ratio, ratio);

  // One pixel per column of the screen and row of the map, then stretched.
  const columns = Math.max(1, Math.round((plan.width - plan.label) * ratio));
  const image = new ImageData(columns, map.rows.length);
  const stops = [rgb('--heat-0'), rgb('--heat-1'), rgb('--heat-2')];
  const lastKnown = map.steps[map.steps.length - 1] ?? 0;
  const source = new Int32Array(columns);
  for (let x = 0; x < columns; ++x) {
    const step = from + ((x + 0.5) / columns) * (to - from);
    source[x] =
      step < (map.steps[0] ?? 0) || step > Math.max(lastKnown, to)
        ? -1
        : columnAt(map, step);
  }
  map.rows.forEach((row, y) => {
    for (let x = 0; x < columns; ++x) {
      const column = source[x] as number;
      const rank =
        column < 0 ? NaN : (map.ranks[y * map.steps.length + column] as number);
      if (Number.isNaN(rank)) continue;
      const share = row.initial > 0 ? Math.min(1, rank / row.initial) : 0;
      const half = share < 0.5 ? 0 : 1;
      const t = (share - half * 0.5) * 2;
      const low = stops[half] as [number, number, number];
      const high = stops[half + 1] as [number, number, number];
      const at = (y * columns + x) * 4;
      for (let c = 0; c < 3; ++c) {
        image.data[at + c] =
          (low[c] as number) + t * ((high[c] as number) - (low[c] as number));
      }
      image.data[at + 3] = 255;
    }
  });
  const strip = document.createElement('canvas');
  strip.width = columns;
  strip.height = map.rows.length;
  strip.getContext('2d')?.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  plan.tops.forEach((top, y) => {
    context.drawImage(
      strip,
      0,
      y,
      columns,
      1,
      plan.label,
      top,
      plan.width - plan.label,
      plan.row,
    );
  });
  labels(context, map, plan);
  steps(context, plan, from, to);
}

function labels(
  context: CanvasRenderingContext2D,
  map: HeatMap,
  plan: Layout,
): void {
  context.fillStyle = cssColor('--muted');
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  context.textAlign = 'right';
  const narrow = plan.label < 150;
  let lowest = -Infinity;
  map.rows.forEach((row, index) => {
    const before = map.rows[index - 1];
    const starts = narrow
      ? !before || before.layerClass !== row.layerClass
      : !before || before.layer !== row.layer;
    if (!starts) return;
    const top = plan.tops[index] as number;
    const middle = narrow ? top + 6 : top + (row.bonds * plan.row) / 2;
    if (middle < lowest + 12) return;
    lowest = middle;
    const text = narrow
      ? words(row.layerClass)
      : row.layer.replace(/^encoder\./, '');
    context.fillText(
      fit(context, text, plan.label - 10),
      plan.label - 8,
      middle,
    );
  });
}

function fit(
  context: CanvasRenderingContext2D,
  text: string,
  room: number,
): string {
  let cut = text;
  while (cut.length > 4 && context.measureText(cut).width > room)
    cut = `…${cut.slice(2)}`;
  return cut;
}

function steps(
  context: CanvasRenderingContext2D,
  plan: Layout,
  from: number,
  to: number,
): void {
  context.textBaseline = 'top';
  const room = plan.width - plan.label;
  if (to <= from) return;
  for (const step of roundTicks(from, to, room / 140, true)) {
    const share = (step - from) / (to - from);
    context.textAlign = share < 0.05 ? 'left' : share > 0.95 ? 'right' : 'center';
    context.fillText(count(step), plan.label + share * room, plan.height - 16);
  }
}
