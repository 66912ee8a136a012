import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { errorOf } from '../../../server/dashboard/src/api/errors';
import {
  fieldLine,
  toYaml,
} from '../../../server/dashboard/src/model/job_file';

const YAML = `# comment: model
display_name: a
model:
  family: masked_lm   # layers: 9
  layers: 2
  hidden: 30
data:
  code_directory:
    roots: [/usr/include]
  tokenizer: {kind: byte_bpe, train_vocabulary_size: 1024}
objective:
  early: {steps: 0, gamma: 0.1}
  late:
    targets:
      - target_loss: 4.9
        target_ratio: 0.4
training:
  steps: 5
`;

describe('fieldLine', () => {
  it('finds fields, also those in braces', () => {
    expect(fieldLine(YAML, 'spec.model.hidden')).toBe(6);
    expect(fieldLine(YAML, 'spec.model.layers')).toBe(5);
    expect(fieldLine(YAML, 'objective.early.steps')).toBe(12);
    expect(fieldLine(YAML, 'spec.data.tokenizer.kind')).toBe(10);
    expect(fieldLine(YAML, 'data.code_directory.roots[0]')).toBe(9);
    expect(fieldLine(YAML, 'objective.late.targets[0].target_ratio')).toBe(16);
    expect(fieldLine(YAML, 'training.steps')).toBe(18);
  });

  it('of a missing field finds the message that lacks it', () => {
    expect(fieldLine(YAML, 'spec.model.heads')).toBe(3);
    expect(fieldLine(YAML, 'spec.data.max_length')).toBe(7);
    expect(fieldLine(YAML, 'spec.optimizer.beta1')).toBe(0);
  });

  it('reads JSON with either style of names', () => {
    const json = JSON.stringify({ model: { maxPositions: 0 } }, null, 2);
    expect(fieldLine(json, 'spec.model.max_positions')).toBe(3);
  });
});

describe('toYaml', () => {
  it('writes what the server accepted', () => {
    expect(
      toYaml({
        displayName: 'my: job',
        labels: { camelKey: 'x', empty: '' },
        model: { family: 'MASKED_LM', hidden: '128', dropoutOff: true },
        data: { codeDirectory: { globs: ['*.h'], roots: ['/usr/include'] } },
        objective: { late: { targets: [{ targetLoss: 4.9 }, {}] } },
        checkpoint: {},
      }),
    ).toBe(
      [
        'display_name: "my: job"',
        'labels:',
        '  camelKey: x',
        '  empty: ""',
        'model:',
        '  family: MASKED_LM',
        '  hidden: 128',
        '  dropout_off: true',
        'data:',
        '  code_directory:',
        '    globs: ["*.h"]',
        '    roots: [/usr/include]',
        'objective:',
        '  late:',
        '    targets:',
        '    - target_loss: 4.9',
        '    - {}',
        'checkpoint: {}',
        '',
      ].join('\n'),
    );
  });

  it('quotes words that mean something else', () => {
    expect(toYaml({ displayName: 'yes' })).toBe('display_name: "yes"\n');
    expect(toYaml({ displayName: 'a\n# b' })).toBe('display_name: "a\\n# b"\n');
    expect(toYaml({ displayName: '- x' })).toBe('display_name: "- x"\n');
  });
});

describe('errorOf', () => {
  const status = {
    code: 400,
    message: 'bad',
    details: [
      { '@type': 'x', reason: 'INVALID_ARGUMENT' },
      {
        '@type': 'y',
        fieldViolations: [{ field: 'spec.model', description: 'is missing' }],
      },
    ],
  };

  it('reads google.rpc.Status, wrapped or not', () => {
    for (const body of [status, { error: status }]) {
      const error = errorOf(400, body);
      expect(error.message).toBe('bad');
      expect(error.violations).toEqual([
        { field: 'spec.model', description: 'is missing', line: 0 },
      ]);
    }
  });

  it('says something about any other answer', () => {
    for (const body of [null, undefined, 'x', [], { details: 7 }]) {
      expect(errorOf(418, body).message).toContain('418');
    }
    expect(errorOf(503, {}).unreachable).toBe(true);
    expect(errorOf(404, {}).unreachable).toBe(false);
  });
});

describe('the template', () => {
  it('is a file of this tree that the submit page begins with', () => {
    const text = readFileSync(
      new URL(
        '../../../server/dashboard/src/pages/template.yaml',
        import.meta.url,
      ),
      'utf8',
    );
    expect(fieldLine(text, 'spec.objective.late.target_loss')).toBeGreaterThan(
      0,
    );
  });
});
