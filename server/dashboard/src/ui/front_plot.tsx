import { useEffect, useRef, useState } from 'preact/hooks';
import { front, type Point } from '../model/front';
import { loss as lossText, short } from '../model/format';
import { roundTicks } from '../model/ticks';
import { Figure } from './figure';

export interface FrontPoint extends Point {
  /** The point in words. */
  label: string;
}

export interface FrontGroup {
  name: string;
  /** A custom property of CSS. */
  color: string;
  shape: number;
  points: FrontPoint[];
}

interface FrontPlotProps {
  title: string;
  groups: FrontGroup[];
  /** Points to get below, in both loss and size. */
  targets?: Point[];
  reference?: Point | null;
  /** The way that training took, in order. */
  history?: Point[];
  wide?: boolean;
}

const HEIGHT = 320;
const PAD = { left: 76, right: 16, top: 14, bottom: 42 };

/** Validation loss against size: points, fronts as stairs, targets as corners. */
export function FrontPlot(props: FrontPlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(480);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() =>
      setWidth(Math.max(240, element.clientWidth)),
    );
    observer.observe(element);
    setWidth(Math.max(240, element.clientWidth));
    return () => observer.disconnect();
  }, []);

  const fronts = props.groups.map((group) => front(group.points));
  const best = front(props.groups.flatMap((group) => group.points));
  return (
    <Figure
      wide={props.wide ?? false}
      title={props.title}
      summary={
        best.length === 0
          ? 'No model has been validated yet.'
          : `${best.length} models that no other one beats: ` +
            best
              .map(
                (p) =>
                  `${short(p.size)} parameters at loss ${lossText(p.loss)}`,
              )
              .join('; ') +
            '.'
      }
      legend={
        <>
          {props.groups.length > 1 &&
            props.groups.map((group) => (
              <span class="key" key={group.name}>
                <svg
                  width="12"
                  height="12"
                  viewBox="-6 -6 12 12"
                  aria-hidden="true"
                >
                  <Mark x={0} y={0} shape={group.shape} color={group.color} />
                </svg>
                {group.name}
              </span>
            ))}
            {props.history && props.history.length > 1 && (
              <span class="key">
                <i class="history" aria-hidden="true" /> history
              </span>
            )}
            {(props.targets?.length ?? 0) > 0 && (
              <span class="key">
                <i class="goal" aria-hidden="true" /> target
              </span>
            )}
        </>
      }
      table={() => ({
        caption: `${props.title}: models by size`,
        head: ['model', 'parameters', 'validation loss', 'on its front'],
        rows: props.groups.flatMap((group, index) =>
          [...group.points]
            .sort((a, b) => a.size - b.size)
            .map((p) => [
              p.label,
              short(p.size),
              lossText(p.loss),
              fronts[index]?.includes(p) ? 'yes' : 'no',
            ]),
        ),
      })}
    >
      <div class="front" ref={box}>
        <Drawing {...props} width={width} fronts={fronts} />
      </div>
    </Figure>
  );
}

function Drawing(
  props: FrontPlotProps & { width: number; fronts: FrontPoint[][] },
) {
  const points = props.groups.flatMap((group) => group.points);
  const all: Point[] = [
    ...points,
    ...(props.targets ?? []),
    ...recent(props.history ?? []),
  ];
  if (all.length === 0)
    return <p class="note">Nothing has been validated yet.</p>;
  const x = scale(
    all.map((p) => p.size),
    PAD.left,
    props.width - PAD.right,
  );
  const y = scale(
    all.map((p) => p.loss),
    HEIGHT - PAD.bottom,
    PAD.top,
  );
  const right = props.width - PAD.right;
  const bottom = HEIGHT - PAD.bottom;
  return (
    <svg width={props.width} height={HEIGHT} aria-hidden="true">
      {y.ticks.map((tick) => (
        <g key={tick}>
          <line
            class="grid"
            x1={PAD.left}
            x2={right}
            y1={y.to(tick)}
            y2={y.to(tick)}
          />
          <text
            class="tick"
            x={PAD.left - 8}
            y={y.to(tick)}
            text-anchor="end"
            dominant-baseline="middle"
          >
            {lossText(tick)}
          </text>
        </g>
      ))}
      {x.ticks.map((tick) => (
        <text
          class="tick"
          key={tick}
          x={x.to(tick)}
          y={bottom + 16}
          text-anchor="middle"
        >
          {short(tick)}
        </text>
      ))}
      <text
        class="tick"
        x={(PAD.left + right) / 2}
        y={HEIGHT - 6}
        text-anchor="middle"
      >
        parameters
      </text>
      <text
        class="tick"
        transform={`translate(12 ${(PAD.top + bottom) / 2}) rotate(-90)`}
        text-anchor="middle"
      >
        validation loss
      </text>
      {(props.targets ?? []).map((target, index) => (
        <g key={index}>
          <rect
            class="goal"
            x={PAD.left}
            y={y.to(target.loss)}
            width={Math.max(0, x.to(target.size) - PAD.left)}
            height={Math.max(0, bottom - y.to(target.loss))}
          />
        </g>
      ))}
      {props.history && props.history.length > 1 && (
        <polyline
          class="history"
          points={recent(props.history)
            .map((p) => `${x.to(p.size)},${y.to(p.loss)}`)
            .join(' ')}
        />
      )}
      {props.groups.map((group, index) => (
        <g key={group.name}>
          <path
            class="stairs"
            style={{ stroke: `var(${group.color})` }}
            d={stairs(props.fronts[index] ?? [], x.to, y.to, right)}
          />
          {group.points.map((p, i) => (
            <g
              key={i}
              class={props.fronts[index]?.includes(p) ? 'best' : 'beaten'}
            >
              <title>{`${p.label}: ${short(p.size)} parameters, loss ${lossText(p.loss)}`}</title>
              <Mark
                x={x.to(p.size)}
                y={y.to(p.loss)}
                shape={group.shape}
                color={group.color}
              />
            </g>
          ))}
        </g>
      ))}
    </svg>
  );
}

/** The wild beginning would squeeze everything else into a corner. */
function recent(history: Point[]): Point[] {
  return history.slice(Math.floor(history.length * 0.1));
}

function stairs(
  points: FrontPoint[],
  x: (v: number) => number,
  y: (v: number) => number,
  right: number,
): string {
  const [first, ...rest] = points;
  if (!first) return '';
  let path = `M${x(first.size)} ${y(first.loss)}`;
  for (const p of rest) path += `H${x(p.size)}V${y(p.loss)}`;
  return `${path}H${right}`;
}

const SHAPES = [
  'M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0',
  'M-4 -4h8v8h-8z',
  'M0 -5l5 8.5h-10z',
  'M0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z',
];

function Mark({
  x,
  y,
  shape,
  color,
}: {
  x: number;
  y: number;
  shape: number;
  color: string;
}) {
  return (
    <path
      transform={`translate(${x} ${y})`}
      d={SHAPES[shape % SHAPES.length] as string}
      style={{ fill: `var(${color})` }}
    />
  );
}

function scale(values: number[], start: number, end: number) {
  let low = Math.min(...values);
  let high = Math.max(...values);
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  low = Math.max(0, low - room);
  high += room;
  const most = Math.abs(end - start) / (end < start ? 50 : 90);
  return {
    ticks: roundTicks(low, high, most),
    to: (v: number) => start + ((v - low) / (high - low)) * (end - start),
  };
}
