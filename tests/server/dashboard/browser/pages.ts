// Debian's Chromium, with what every page of these tests must keep to.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import {
  chromium,
  type Browser,
  type BrowserContext,
  type Page,
} from 'playwright-core';
import { expect } from 'vitest';

const AXE = readFileSync(
  createRequire(import.meta.url).resolve('axe-core/axe.min.js'),
  'utf8',
);

export async function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env['COMERA_CHROMIUM'] ?? '/usr/bin/chromium',
    // Chromium's own sandbox refuses to run as root.
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
}

export interface Visit {
  page: Page;
  context: BrowserContext;
  /** Problems of the page so far that nobody has taken. */
  problems: string[];
  /** Answers with errors and broken connections are meant to happen. */
  allowFailures: boolean;
  close: () => Promise<void>;
}

/**
 * A page that asks no other host, and whose console stays empty; at `url`, if
 * it is to `go` there at once.
 */
export async function visit(
  browser: Browser,
  url: string,
  options: Parameters<Browser['newContext']>[0] = {},
  go = true,
): Promise<Visit> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(30000);
  const visited: Visit = {
    page,
    context,
    problems: [],
    allowFailures: false,
    close: async () => {
      await context.close();
      expect(visited.problems).toEqual([]);
    },
  };
  const origin = new URL(url).origin;
  page.on('request', (request) => {
    const asked = new URL(request.url());
    if (asked.origin !== origin && asked.protocol !== 'blob:') {
      visited.problems.push(`asked ${request.url()}`);
    }
  });
  page.on('console', (message) => {
    if (message.type() !== 'error' && message.type() !== 'warning') return;
    const text = message.text();
    if (visited.allowFailures && text.startsWith('Failed to load resource')) {
      return;
    }
    visited.problems.push(`console: ${text}`);
  });
  page.on('pageerror', (error) => visited.problems.push(error.message));
  page.on('dialog', (dialog) => {
    visited.problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  if (go) await page.goto(url);
  return visited;
}

/** No violation of WCAG 2.2 AA that axe finds. */
export async function checkAccess(page: Page, what: string): Promise<void> {
  // Evaluated by the browser's debugger, so that the page's policy stands.
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { axe } = window as unknown as {
      axe: { run: (where: Document, options: object) => Promise<AxeResult> };
    };
    const result = await axe.run(document, {
      runOnly: [
        'wcag2a',
        'wcag2aa',
        'wcag21a',
        'wcag21aa',
        'wcag22aa',
        'best-practice',
      ],
    });
    return result.violations.map(
      (one) =>
        `${one.id}: ${one.help}: ${one.nodes
          .slice(0, 3)
          .map((node) => node.html.slice(0, 160))
          .join(' | ')}`,
    );
  });
  expect(found, `axe on ${what}`).toEqual([]);
}

interface AxeResult {
  violations: { id: string; help: string; nodes: { html: string }[] }[];
}

export async function checkFits(page: Page, what: string): Promise<void> {
  const surplus = await page.evaluate(
    () => document.documentElement.scrollWidth - window.innerWidth,
  );
  expect(surplus, `${what} is wider than the screen`).toBeLessThanOrEqual(0);
}

/** How many different colours a canvas shows. */
export async function colours(page: Page, selector: string): Promise<number> {
  return page
    .locator(selector)
    .first()
    .evaluate((canvas) => {
      const { width, height } = canvas as HTMLCanvasElement;
      const context = (canvas as HTMLCanvasElement).getContext('2d');
      const data = context?.getImageData(0, 0, width, height).data;
      const seen = new Set<number>();
      for (let i = 0; data && i < data.length; i += 4) {
        seen.add((data[i]! << 16) | (data[i + 1]! << 8) | data[i + 2]!);
      }
      return seen.size;
    });
}
