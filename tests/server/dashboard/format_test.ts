import { describe, expect, it } from 'vitest';
import * as format from '../../../server/dashboard/src/model/format';

describe('numbers of protobuf JSON', () => {
  it('reads int64, which come as strings, and absent fields as 0', () => {
    expect(format.int('95845')).toBe(95845);
    expect(format.int(7)).toBe(7);
    expect(format.int(undefined)).toBe(0);
    expect(format.int('x')).toBe(0);
  });

  it('reads doubles, of which some come as words', () => {
    expect(format.float(4.5)).toBe(4.5);
    expect(format.float('4.5')).toBe(4.5);
    expect(format.float('NaN')).toBeNull();
    expect(format.float('-Infinity')).toBeNull();
    expect(format.float(undefined)).toBeNull();
  });

  it('reads durations', () => {
    expect(format.seconds('83.5s')).toBe(83.5);
    expect(format.seconds('0s')).toBe(0);
    expect(format.seconds('5 minutes')).toBeNull();
    expect(format.seconds(undefined)).toBeNull();
  });
});

describe('for people', () => {
  it('shortens numbers', () => {
    expect(format.short(95845)).toBe('95.8 k');
    expect(format.short(1234567)).toBe('1.23 M');
    expect(format.short(2132.4)).toBe('2,132');
    expect(format.short(0.0512)).toBe('0.0512');
    expect(format.short(0)).toBe('0');
    expect(format.short(0.00001)).toBe('1.0e-5');
  });

  it('tells energy in powers of a thousand', () => {
    expect(format.joules(0.5)).toBe('0.50 J');
    expect(format.joules(1234.5)).toBe('1.23 kJ');
    expect(format.joules(123456)).toBe('123 kJ');
  });

  it('tells bytes in powers of two', () => {
    expect(format.bytes(0)).toBe('0 B');
    expect(format.bytes(1023)).toBe('1023 B');
    expect(format.bytes(383380)).toBe('374 KiB');
    expect(format.bytes(2.61 * 1024 * 1024)).toBe('2.61 MiB');
  });

  it('tells spans of time with two units', () => {
    expect(format.span(0)).toBe('0s');
    expect(format.span(59.6)).toBe('1m00s');
    expect(format.span(192)).toBe('3m12s');
    expect(format.span(3600)).toBe('1h00m');
    expect(format.span(90000)).toBe('1d01h');
    expect(format.span(NaN)).toBe(format.NONE);
  });

  it('tells how many times smaller', () => {
    expect(format.times(685184, 95845)).toBe('7.1×');
    expect(format.times(0, 5)).toBe('');
  });

  it('keeps names of resources apart in addresses', () => {
    expect(format.pathOf('jobs/a b/models/c#d')).toBe(
      'jobs/a%20b/models/c%23d',
    );
    expect(format.lastSegment('jobs/x/models/y')).toBe('y');
  });

  it('changes the style of names both ways', () => {
    expect(format.snake('targetSizeParameters')).toBe('target_size_parameters');
    expect(format.camel('beta1')).toBe('beta1');
    expect(format.camel('sentence1_column')).toBe('sentence1Column');
  });
});
