// Job files: written from a specification, and looked up for the validator.
import type { Json, JsonObject } from '../api/types';
import { snake } from './format';

/** A specification as YAML with the names of its proto. */
export function toYaml(spec: JsonObject): string {
  return block(spec, 0, false).join('\n') + '\n';
}

function block(value: JsonObject, depth: number, verbatim: boolean): string[] {
  const lines: string[] = [];
  const indent = '  '.repeat(depth);
  for (const [key, field] of Object.entries(value)) {
    if (field === undefined || field === null) continue;
    const name = verbatim ? scalar(key) : snake(key);
    // The keys of a map are the user's words, not names of fields.
    const isMap = !verbatim && key === 'labels' && !Array.isArray(field);
    if (Array.isArray(field)) {
      if (field.every((item) => item === null || typeof item !== 'object')) {
        lines.push(`${indent}${name}: [${field.map(scalar).join(', ')}]`);
      } else {
        lines.push(`${indent}${name}:`);
        for (const item of field) lines.push(...listItem(item, depth));
      }
    } else if (typeof field === 'object') {
      const inner = block(field, depth + 1, isMap);
      if (inner.length === 0) lines.push(`${indent}${name}: {}`);
      else lines.push(`${indent}${name}:`, ...inner);
    } else {
      lines.push(`${indent}${name}: ${scalar(field)}`);
    }
  }
  return lines;
}

function listItem(item: Json, depth: number): string[] {
  const indent = '  '.repeat(depth);
  if (item === null || typeof item !== 'object' || Array.isArray(item)) {
    return [
      `${indent}- ${Array.isArray(item) ? JSON.stringify(item) : scalar(item)}`,
    ];
  }
  const inner = block(item, depth + 1, false);
  if (inner.length === 0) return [`${indent}- {}`];
  return inner.map((line, index) =>
    index === 0 ? `${indent}- ${line.trimStart()}` : line,
  );
}

function scalar(value: Json): string {
  if (typeof value !== 'string') return String(value);
  // int64 comes as a string; anything else that YAML could misread is quoted.
  if (/^-?\d{1,19}$/.test(value)) return value;
  if (
    /^[A-Za-z_/][\w./@ -]*$/.test(value) &&
    !/^(true|false|null|yes|no|on|off|y|n)$/i.test(value)
  ) {
    return value.trimEnd() === value ? value : JSON.stringify(value);
  }
  return JSON.stringify(value);
}

/**
 * The line (from 1) of a YAML or JSON job file at which `field`, for example
 * `spec.objective.late.target_loss` or `data.files[1]`, stands; of a field that
 * is missing, the line of the innermost message that should have it. 0: none.
 */
export function fieldLine(text: string, field: string): number {
  const path = field
    .replace(/^spec\./, '')
    .replace(/\[\d+\]/g, '')
    .split('.')
    .filter((part) => part !== '' && part !== 'spec')
    .map(snake);
  const lines = text.split('\n');
  let begin = 0;
  let end = lines.length;
  let parent = -1;
  let found = 0;
  for (const part of path) {
    let at = -1;
    let best = Infinity;
    for (let i = begin; i < end; ++i) {
      const match = key(lines[i] as string, part);
      if (match !== null && match > parent && match < best) {
        at = i;
        best = match;
      }
    }
    if (at < 0) break;
    found = at + 1;
    parent = best;
    begin = at;
    let next = at + 1;
    while (next < end && !closes(lines[next] as string, best)) ++next;
    end = next;
  }
  return found;
}

/** The column of `name` as a key in a line, or null. */
function key(line: string, name: string): number | null {
  const bare = line.replace(/(^|\s)#.*$/, '$1');
  const pattern = /(["']?)([A-Za-z_]\w*)\1\s*:/g;
  for (let match = pattern.exec(bare); match; match = pattern.exec(bare)) {
    if (snake(match[2] as string) === name) return match.index;
  }
  return null;
}

function closes(line: string, column: number): boolean {
  const bare = line.replace(/(^|\s)#.*$/, '$1');
  if (bare.trim() === '') return false;
  const indent = bare.length - bare.trimStart().length;
  return indent <= column;
}
