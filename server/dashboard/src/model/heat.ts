import type { RankSnapshot } from '../api/types';
import { int } from './format';

/** A bond of a layer: one row of the heat map. */
export interface HeatRow {
  layer: string;
  layerClass: string;
  bond: number;
  bonds: number;
  initial: number;
}

export interface HeatMap {
  rows: HeatRow[];
  steps: number[];
  /** Rank per row and snapshot, row by row; NaN where the layer is not there. */
  ranks: Float32Array;
}

/** Snapshots (oldest first) as a matrix; a step told twice counts as told last. */
export function heatMap(snapshots: readonly RankSnapshot[]): HeatMap {
  const byStep = new Map<number, RankSnapshot>();
  for (const snapshot of snapshots) {
    const step = int(snapshot.step);
    // A resumed attempt starts over from its checkpoint.
    for (const known of [...byStep.keys()])
      if (known > step) byStep.delete(known);
    byStep.set(step, snapshot);
  }
  const steps = [...byStep.keys()].sort((a, b) => a - b);
  const rows: HeatRow[] = [];
  const place = new Map<string, number>();
  for (const step of steps) {
    for (const layer of byStep.get(step)?.layers ?? []) {
      const name = layer.layer ?? '';
      if (place.has(name)) continue;
      place.set(name, rows.length);
      const initial = layer.initial ?? layer.current ?? [];
      initial.forEach((rank, bond) =>
        rows.push({
          layer: name,
          layerClass: layer.layerClass ?? '',
          bond,
          bonds: initial.length,
          initial: rank,
        }),
      );
    }
  }
  const ranks = new Float32Array(rows.length * steps.length).fill(NaN);
  steps.forEach((step, column) => {
    for (const layer of byStep.get(step)?.layers ?? []) {
      const first = place.get(layer.layer ?? '') as number;
      const bonds = rows[first]?.bonds ?? 0;
      for (let bond = 0; bond < bonds; ++bond) {
        ranks[(first + bond) * steps.length + column] =
          layer.current?.[bond] ?? 0;
      }
    }
  });
  return { rows, steps, ranks };
}

export interface ClassRanks {
  layerClass: string;
  layers: number;
  initial: number;
  current: number;
}

/** Mean rank per class of layers, at the beginning and now. */
export function classRanks(snapshot: RankSnapshot | undefined): ClassRanks[] {
  const sums = new Map<
    string,
    { layers: number; bonds: number; initial: number; current: number }
  >();
  for (const layer of snapshot?.layers ?? []) {
    const key = layer.layerClass ?? '';
    const sum = sums.get(key) ?? {
      layers: 0,
      bonds: 0,
      initial: 0,
      current: 0,
    };
    const initial = layer.initial ?? [];
    ++sum.layers;
    sum.bonds += initial.length;
    initial.forEach((rank, bond) => {
      sum.initial += rank;
      sum.current += layer.current?.[bond] ?? 0;
    });
    sums.set(key, sum);
  }
  return [...sums].map(([layerClass, sum]) => ({
    layerClass,
    layers: sum.layers,
    initial: sum.bonds ? sum.initial / sum.bonds : 0,
    current: sum.bonds ? sum.current / sum.bonds : 0,
  }));
}
