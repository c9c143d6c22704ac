import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { type ApiOnBus, startApiOnBus } from '../../support/bus/api-on-bus.ts';
import { sampleReport } from '../../support/bus/fake-backend.ts';
import { BrowserSession, cockpitNeeds } from '../../support/cockpit/browser-session.ts';
import { have } from '../../support/requirements.ts';

const MARKUP = '<img src=x onerror=alert(1)><script>alert(2)</script>"\'&amp;';
const TEXTS = [MARKUP, `a\u202eb\u2066c\u200fd ${MARKUP}`, 'x'.repeat(5_000), `${'wide '.repeat(2_000)}`];

const cut = (text: string, most: number) => text.slice(0, most) || 'x';

/** The sample with this text in the place of each text that nothing checks. */
function hostile(text: string): StatusReport {
  const kept = new Set([
    'action',
    'bundleId',
    'kind',
    'phase',
    'state',
    'status',
    'verdict',
    'type',
    'operation',
    'source',
    'scheme',
    'effect',
    'rule',
  ]);
  const replace = (value: unknown, key: string): unknown => {
    if (Array.isArray(value)) return value.map((one) => replace(one, key));
    if (typeof value === 'object' && value !== null)
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, replace(one, name)]));
    const isTime = typeof value === 'string' && /^\d{4}-\d\d-\d\dT/.test(value);
    return typeof value === 'string' && !isTime && !kept.has(key) && key !== 'releasedBy' && key !== 'require'
      ? text
      : value;
  };
  const pauses = sampleReport().pauses?.map((one) => ({ ...one, by: cut(text, 63), why: cut(text, 100) }));
  return { ...(replace(sampleReport(), '') as StatusReport), status: text, ...(pauses && { pauses }) };
}

describe.runIf(have('root', 'dbus-daemon', ...cockpitNeeds))('text from sticks in the page in Cockpit', () => {
  let report = hostile('');
  let api: ApiOnBus;

  beforeAll(async () => {
    api = await startApiOnBus(
      {
        getHistory: async () =>
          TEXTS.map((message) => ({ at: 0, kind: 'adopted', message, medium: message, by: message })),
      },
      () => report,
    );
  });
  afterAll(() => api?.[Symbol.asyncDispose]());

  it.each(TEXTS.map((text, at) => [at, text.slice(0, 40)] as const))(
    'is never markup, and fits on a narrow screen: text %i',
    async (at) => {
      const text = TEXTS[at] ?? '';
      report = hostile(text);
      await using session = await BrowserSession.open({ address: api.address });
      await session.resize(360, 800);
      await session.shows(/Releases in use/);
      for (const tab of ['overview', 'releases', `releases/${report.bundles[0]?.bundleId}`, 'history']) {
        await session.go(tab);
        await session.shows(new RegExp(text.slice(0, 1)));
        await session.picture(`hostile-${at}-${tab.slice(0, 10).replace('/', '-')}`);
        const made = 'document.querySelectorAll("img, body script, [onerror], iframe, a").length';
        expect(await session.page.evaluate(made)).toBe(0);
        expect(await session.overflow(), tab).toEqual([]);
        expect(await session.text()).not.toMatch(/[\u202e\u2066\u200f]|x{2001}/);
      }
      expect(await session.findings()).toEqual([]);
      expect(session.faults).toEqual([]);
    },
  );
});
