import type { Job } from '../api/types';
import { float, loss } from './format';

/** The figures beside the loss that a target may ask for, first come first. */
const FIGURES = [
  { metric: 'validationAuc', target: 'targetAuc', name: 'AUC' },
  { metric: 'validationAccuracy', target: 'targetAccuracy', name: 'accuracy' },
  { metric: 'validationF1', target: 'targetF1', name: 'F1' },
  { metric: 'validationMcc', target: 'targetMcc', name: 'MCC' },
] as const;

type Figure = (typeof FIGURES)[number];

const share = (value: number): string => `${(100 * value).toFixed(1)}%`;

function text(figure: Figure, value: number): string {
  return figure.name === 'accuracy' ? share(value) : value.toFixed(4);
}

type Target = { [name in Figure['target']]?: number } & {
  targetPerplexity?: number;
};

/** The target of the job, or else the last of its list. */
function lastTarget(job: Job): Target {
  const late = job.spec?.objective?.late ?? {};
  return (late.targets ?? []).at(-1) ?? late;
}

export interface Quality {
  name: string;
  value: string;
  /** What the target asks for; "" if it asks for another figure. */
  asked: string;
  /** The other figures. */
  others: string;
}

/**
 * The validation figure to show beside the loss: what the target asks for, or
 * else the first that the job has; null if it has none.
 */
export function qualityOf(
  job: Job,
  last: (metric: string) => number | null,
): Quality | null {
  const target = lastTarget(job);
  const asked = float(target.targetPerplexity);
  const validation = last('validationLoss');
  if (asked !== null && validation !== null) {
    return {
      name: 'perplexity',
      value: loss(Math.exp(validation)),
      asked: loss(asked),
      others: '',
    };
  }
  const known = FIGURES.flatMap((figure) => {
    const value = last(figure.metric);
    return value === null ? [] : [{ figure, value }];
  });
  const shown =
    known.find(({ figure }) => float(target[figure.target]) !== null) ??
    known[0];
  if (!shown) return null;
  const wanted = float(target[shown.figure.target]);
  return {
    name: shown.figure.name,
    value: text(shown.figure, shown.value),
    asked: wanted === null ? '' : text(shown.figure, wanted),
    others: known
      .filter((one) => one !== shown)
      .map(({ figure, value }) => `${figure.name} ${text(figure, value)}`)
      .join(', '),
  };
}

/** "test set 81.2%"; "" before the end and without a test set. */
export function testText(
  test: { samples?: string | number; accuracy?: number } | null | undefined,
): string {
  const accuracy = float(test?.accuracy);
  return !test || accuracy === null
    ? ''
    : `test set: accuracy ${share(accuracy)}`;
}
