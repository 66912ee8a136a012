import uPlot from 'uplot';
import { useEffect, useRef } from 'preact/hooks';
import { align, type SeriesStore } from '../model/series_store';
import { count, NONE } from '../model/format';
import { useStore } from '../model/store';
import { Figure } from './figure';
import { cssColor, dark } from './theme';

export interface PlotSeries {
  metric: string;
  label: string;
  /** A custom property of CSS. */
  color: string;
  points?: boolean;
  dashed?: boolean;
}

export interface PlotLine {
  value: number;
  label: string;
}

export type Zoom = [number, number] | null;

interface PlotProps {
  title: string;
  series: PlotSeries[];
  lines?: PlotLine[];
  store: SeriesStore;
  version: number;
  format: (value: number) => string;
  zoom: Zoom;
  onZoom: (zoom: Zoom) => void;
  /** The axis begins at 0. */
  fromZero?: boolean;
  /** Values are bytes: ticks at powers of two. */
  binary?: boolean;
}

const HEIGHT = 220;
const POWERS_OF_TWO = Array.from({ length: 50 }, (_, power) => 2 ** power);

function summary(props: PlotProps): string {
  const parts = props.series.map(({ metric, label }) => {
    const series = props.store.get(metric);
    const first = series.first();
    const last = series.last();
    if (!first || !last) return `${label}: nothing yet`;
    return `${label}: ${props.format(first.value)} at step ${count(first.step)}, ${props.format(
      last.value,
    )} at step ${count(last.step)}`;
  });
  for (const line of props.lines ?? [])
    parts.push(`${line.label} ${props.format(line.value)}`);
  return parts.join('; ') + '.';
}

/** Series over steps, with lines at fixed values; dragging zooms. */
export function Plot(props: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const readout = useRef<HTMLSpanElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const isDark = useStore(dark);
  const shape = props.series.map((s) => s.metric).join();

  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const made = new uPlot(
      options(latest, readout, element.clientWidth || 300),
      [[]],
      element,
    );
    plot.current = made;
    draw(made, latest.current);
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientWidth !== made.width) {
        made.setSize({ width: element.clientWidth, height: HEIGHT });
        draw(made, latest.current);
      }
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [isDark, shape]);

  useEffect(() => {
    if (plot.current) draw(plot.current, props);
  }, [props.version, props.zoom, props.lines]);

  return (
    <Figure
      title={props.title}
      summary={summary(props)}
      legend={
        <>
          {props.series.map((series) => (
            <span class="key" key={series.metric}>
              <i
                style={{ background: `var(${series.color})` }}
                aria-hidden="true"
              />
              {series.label}
            </span>
          ))}
          <span class="readout" ref={readout} aria-hidden="true" />
        </>
      }
      table={() => table(props)}
    >
      <div class="plot" ref={box} aria-hidden="true" />
    </Figure>
  );
}

function table(props: PlotProps) {
  const [from, to] = props.zoom ?? props.store.range();
  const views = props.series.map((s) =>
    props.store.get(s.metric).view(from, to, 12),
  );
  const [steps, ...columns] = align(views);
  return {
    caption: `${props.title} over steps`,
    head: ['step', ...props.series.map((s) => s.label)],
    rows: steps.map((step, row) => [
      count(step),
      ...columns.map((column) => {
        const value = column[row];
        return value === null || value === undefined
          ? NONE
          : props.format(value);
      }),
    ]),
  };
}

function draw(plot: uPlot, props: PlotProps): void {
  const [from, to] = props.zoom ?? props.store.range();
  const buckets = Math.max(50, Math.round(plot.width / 1.5));
  const views = props.series.map((s) =>
    props.store.get(s.metric).view(from, to, buckets),
  );
  plot.batch(() => {
    plot.setData(align(views) as uPlot.AlignedData, false);
    plot.setScale('x', { min: from, max: Math.max(to, from + 1) });
  });
}

type Latest = { current: PlotProps };

function options(
  latest: Latest,
  readout: { current: HTMLSpanElement | null },
  width: number,
): uPlot.Options {
  const muted = cssColor('--muted');
  const line = cssColor('--line');
  const font = '12px system-ui, sans-serif';
  const axis = {
    stroke: muted,
    font,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, size: 4 },
  };
  return {
    width,
    height: HEIGHT,
    padding: [10, 12, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: false },
      y: { range: (_, low, high) => yRange(latest.current, low, high) },
    },
    axes: [
      {
        ...axis,
        values: (_, splits) =>
          splits.map((v) => (Number.isInteger(v) ? count(v) : '')),
        size: 30,
      },
      {
        ...axis,
        values: (_, splits) =>
          splits.map((v) =>
            latest.current.format(v).replace(/\.0+(?= |$)/, ''),
          ),
        size: 64,
        ...(latest.current.binary ? { incrs: POWERS_OF_TWO } : {}),
      },
    ],
    series: [
      {},
      ...latest.current.series.map((series) => ({
        label: series.label,
        stroke: cssColor(series.color),
        width: series.points ? 2 : 1.5,
        spanGaps: true,
        ...(series.dashed ? { dash: [6, 4] } : {}),
        points: {
          show: series.points === true,
          size: 5,
          fill: cssColor(series.color),
        },
      })),
    ],
    cursor: {
      sync: { key: 'job' },
      drag: { x: true, y: false, setScale: false },
      focus: { prox: -1 },
      bind: {
        dblclick: () => () => {
          latest.current.onZoom(null);
          return null;
        },
      },
    },
    hooks: {
      draw: [(plot) => drawLines(plot, latest.current, muted)],
      setCursor: [(plot) => tell(plot, latest.current, readout.current)],
      setSelect: [
        (plot) => {
          if (plot.select.width < 6) return;
          const from = plot.posToVal(plot.select.left, 'x');
          const to = plot.posToVal(plot.select.left + plot.select.width, 'x');
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          latest.current.onZoom([Math.max(0, Math.floor(from)), Math.ceil(to)]);
        },
      ],
    },
  };
}

function yRange(
  props: PlotProps,
  low: number | null,
  high: number | null,
): [number, number] {
  let bottom = low ?? 0;
  let top = high ?? 1;
  for (const line of props.lines ?? []) {
    bottom = Math.min(bottom, line.value);
    top = Math.max(top, line.value);
  }
  if (props.fromZero) bottom = Math.min(0, bottom);
  const room = (top - bottom || Math.abs(top) || 1) * 0.06;
  return [props.fromZero && bottom === 0 ? 0 : bottom - room, top + room];
}

function drawLines(plot: uPlot, props: PlotProps, color: string): void {
  const context = plot.ctx;
  const { left, width } = plot.bbox;
  context.save();
  context.strokeStyle = cssColor('--target');
  context.fillStyle = cssColor('--target') || color;
  context.lineWidth = devicePixelRatio;
  context.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  context.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  context.textAlign = 'left';
  context.textBaseline = 'bottom';
  for (const line of props.lines ?? []) {
    const y = Math.round(plot.valToPos(line.value, 'y', true));
    context.beginPath();
    context.moveTo(left, y);
    context.lineTo(left + width, y);
    context.stroke();
    const text = `${line.label} ${props.format(line.value)}`;
    context.fillText(
      text,
      left + 6 * devicePixelRatio,
      y - 2 * devicePixelRatio,
    );
  }
  context.restore();
}

function tell(
  plot: uPlot,
  props: PlotProps,
  readout: HTMLSpanElement | null,
): void {
  if (!readout) return;
  const index = plot.cursor.idx;
  if (index === null || index === undefined) {
    readout.textContent = '';
    return;
  }
  const step = plot.data[0][index];
  const values = props.series.map((_, i) => {
    const column = plot.data[i + 1] as (number | null)[];
    let at = index;
    while (at > 0 && column[at] === null) --at;
    const value = column[at];
    return value === null || value === undefined ? NONE : props.format(value);
  });
  readout.textContent =
    step === undefined ? '' : `step ${count(step)}: ${values.join(' · ')}`;
}
