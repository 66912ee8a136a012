import type { JobSpec } from '../api/types';
import { float, int } from './format';
import type { Point } from './front';

/** Bytes of a parameter in an exported file. */
const PARAMETER_BYTES = 4;

/**
 * The targets of a job file that are both a loss and a size known beforehand:
 * not those that ask for another figure, or for a share of the early stage's
 * size.
 */
export function askedTargets(spec: JobSpec | undefined): Point[] {
  const late = spec?.objective?.late;
  if (!late) return [];
  const all = (late.targets ?? []).length > 0 ? (late.targets ?? []) : [late];
  return all.flatMap((target) => {
    const loss = float(target.targetLoss);
    const size =
      int(target.targetParameters) || int(target.targetBytes) / PARAMETER_BYTES;
    return loss !== null && loss > 0 && size > 0 ? [{ loss, size }] : [];
  });
}
