import { defineConfig } from 'vitest/config';

const FILES: Record<string, string> = {
  unit: '*_test.ts',
  browser: 'browser/*_test.ts',
  // No tests, but programs that need the same surroundings.
  speed: 'browser/speed.ts',
  screenshots: 'browser/screenshots.ts',
};
const kind = process.env['COMERA_TEST'] ?? 'unit';

export default defineConfig({
  test: {
    include: [FILES[kind] ?? ''],
    // Each file has servers and a browser of its own: two at once are enough.
    maxWorkers: 2,
    minWorkers: 1,
    testTimeout: kind === 'unit' ? 5000 : kind === 'browser' ? 120000 : 600000,
    hookTimeout: 60000,
    cache: false,
  },
});
