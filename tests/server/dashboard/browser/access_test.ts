// A coordinator that asks for tokens; everything by keyboard alone.
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkAccess, launch, visit } from './pages';
import { Service, submit } from './service';

let browser: Browser;
let service: Service;

beforeAll(async () => {
  [browser, service] = await Promise.all([
    launch(),
    Service.start({ tokens: true, workers: false }),
  ]);
  await submit(service, { name: 'first job' });
  await submit(service, { name: 'second job' });
});

afterAll(async () => {
  await browser?.close();
  await service?.stop();
});

/** Tab until what has the focus is called `name`. */
async function tabTo(page: Page, name: RegExp): Promise<void> {
  const seen: string[] = [];
  for (let i = 0; i < 60; ++i) {
    await page.keyboard.press('Tab');
    const text = await page.evaluate(() => {
      const element = document.activeElement as HTMLElement;
      return element.getAttribute('aria-label') ?? element.textContent ?? '';
    });
    if (name.test(text)) return;
    seen.push(text.slice(0, 40));
  }
  throw new Error(`Tab does not lead to ${name}: ${seen.join(', ')}`);
}

describe('with tokens', () => {
  it('logs in, works and logs out, by keyboard alone', async () => {
    const visited = await visit(browser, `${service.url}/jobs`);
    const { page } = visited;
    visited.allowFailures = true;
    await page.getByRole('heading', { name: 'Log in' }).waitFor();
    expect(await page.getByText('first job').count()).toBe(0);
    await checkAccess(page, 'login');

    // The field has the focus.
    await page.keyboard.type('nonsense');
    await page.keyboard.press('Enter');
    await page.getByText('does not accept this token').waitFor();
    await page.keyboard.type(service.adminToken);
    await page.keyboard.press('Enter');
    await page.getByText('first job').waitFor();
    visited.allowFailures = false;

    // The cookie is out of reach for scripts, and stays for the next page.
    expect(await page.evaluate(() => document.cookie)).toBe('');
    const cookies = await visited.context.cookies();
    expect(cookies).toHaveLength(1);
    expect(cookies[0]).toMatchObject({ httpOnly: true, sameSite: 'Strict' });
    await page.reload();
    await page.getByText('first job').waitFor();

    // Skip link, then rows by j and k, Enter opens.
    await page.keyboard.press('Tab');
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe(
      'Skip to content',
    );
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'first job' }).waitFor();

    // Tabs by arrows.
    await tabTo(page, /^Overview$/);
    await page.keyboard.press('ArrowLeft');
    await page.getByText('Why it is').waitFor();
    await page.getByText('Waits for').waitFor();
    expect(page.url()).toMatch(/\/explain$/);

    // A dialog holds the focus, and Esc gives it back.
    await tabTo(page, /^comera, jobs$/);
    await tabTo(page, /^Cancel…$/);
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('#dialog-title').waitFor({ state: 'detached' });
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe(
      'Cancel…',
    );
    // The reason has the focus; then "Keep it running", then the other.
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.locator('.badge', { hasText: 'cancelled' }).first().waitFor();

    // Keys.
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await checkAccess(page, 'keys');
    await page.keyboard.press('Escape');
    await page.keyboard.press('g');
    await page.keyboard.press('c');
    await page.getByRole('heading', { name: 'No workers' }).waitFor();
    await page.keyboard.press('/');
    await page.locator('#search:focus').waitFor();
    await page.keyboard.type('second');
    await page.getByText('1 job', { exact: true }).waitFor();

    visited.allowFailures = true;
    await page.keyboard.press('Escape');
    await tabTo(page, /^Log out$/);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Log in' }).waitFor();
    expect(await visited.context.cookies()).toHaveLength(0);
    await visited.close();
  });
});
