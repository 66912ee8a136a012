// Numbers, times and names as people read them.
import type { Int64 } from '../api/types';

export const NONE = '–';

/** An int64 of protobuf's JSON; 0 where it is absent. */
export function int(value: Int64 | undefined | null): number {
  if (value === undefined || value === null) return 0;
  const number = typeof value === 'number' ? value : Number(value);
  return Number.isFinite(number) ? number : 0;
}

/** A double of protobuf's JSON, which writes "NaN" and "Infinity" as strings. */
export function float(value: unknown): number | null {
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (typeof value === 'string' && value !== '') {
    const number = Number(value);
    return Number.isFinite(number) ? number : null;
  }
  return null;
}

export function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(2)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  if (size >= 100 || Number.isInteger(value)) return count(value);
  if (size >= 0.001 || size === 0) return value.toPrecision(3);
  return value.toExponential(1);
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(value: number): string {
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    ++unit;
  }
  const digits =
    unit === 0 || Math.abs(size) >= 100 ? 0 : Math.abs(size) >= 10 ? 1 : 2;
  return `${size.toFixed(digits)} ${UNITS[unit]}`;
}

const JOULES = ['J', 'kJ', 'MJ', 'GJ'];

export function joules(value: number): string {
  let energy = value;
  let unit = 0;
  while (Math.abs(energy) >= 1000 && unit < JOULES.length - 1) {
    energy /= 1000;
    ++unit;
  }
  return `${energy.toFixed(Math.abs(energy) >= 100 ? 0 : 2)} ${JOULES[unit]}`;
}

export function loss(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value))
    return NONE;
  return Math.abs(value) >= 100 ? value.toFixed(1) : value.toFixed(3);
}

export function percent(share: number): string {
  if (!Number.isFinite(share)) return NONE;
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)}%`;
}

/** "9.6x": how many times `part` fits into `whole`; "" if that says nothing. */
export function times(whole: number, part: number): string {
  if (!(whole > 0) || !(part > 0)) return '';
  const ratio = whole / part;
  return `${ratio >= 100 ? ratio.toFixed(0) : ratio.toFixed(1)}×`;
}

/** Seconds of a protobuf duration ("12.5s"). */
export function seconds(duration: string | undefined): number | null {
  if (!duration || !/^-?\d+(\.\d+)?s$/.test(duration)) return null;
  return Number(duration.slice(0, -1));
}

export function span(total: number): string {
  if (!Number.isFinite(total)) return NONE;
  const s = Math.max(0, Math.round(total));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${pad(s % 60)}s`;
  if (s < 86400)
    return `${Math.floor(s / 3600)}h${pad(Math.floor((s % 3600) / 60))}m`;
  return `${Math.floor(s / 86400)}d${pad(Math.floor((s % 86400) / 3600))}h`;
}

function pad(value: number): string {
  return String(value).padStart(2, '0');
}

export function millis(time: string | undefined): number | null {
  if (!time) return null;
  const value = Date.parse(time);
  return Number.isNaN(value) ? null : value;
}

/** "3m12s": how long ago; "" if unknown. */
export function age(time: string | undefined, now: number): string {
  const then = millis(time);
  return then === null ? '' : span((now - then) / 1000);
}

export function clock(time: string | undefined): string {
  const value = millis(time);
  if (value === null) return NONE;
  return new Date(value).toLocaleString(undefined, {
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  });
}

/** "TARGET_MET" as "target met". */
export function words(name: string | undefined): string {
  return (name ?? '').replace(/_/g, ' ').toLowerCase();
}

/** `jobs/x` as `x`; `jobs/x/models/y` as `y`. */
export function lastSegment(name: string | undefined): string {
  return (name ?? '').split('/').pop() ?? '';
}

/** The name of a resource as the path of an address. */
export function pathOf(name: string): string {
  return name.split('/').map(encodeURIComponent).join('/');
}

export function snake(camel: string): string {
  return camel.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

export function camel(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) =>
    letter.toUpperCase(),
  );
}
