import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const folder = new URL('../../../systemd/', import.meta.url);
const services = readdirSync(folder).filter((name) => name.endsWith('.service'));

describe('the restarts of the units', () => {
  it.each(services)('%s has no setting that systemd 252 does not know, and restarts in no tight loop', (name) => {
    const unit = readFileSync(new URL(name, folder), 'utf8');
    // systemd 254 brought them (systemd.service(5)); 252 would restart at RestartSec= for ever.
    expect(unit).not.toMatch(/^(?:RestartSteps|RestartMaxDelaySec|RestartMode)=/m);
    const [, seconds] = /^RestartSec=(\d+)$/m.exec(unit) ?? [];
    const isPaced = /^ExecStopPost=.*keep-mirrors stopped$/m.test(unit);
    if (/^Restart=/m.test(unit)) expect(isPaced || Number(seconds) >= 30).toBe(true);
    // Wrong settings must not end it with a code that takes its mirrors away: 75 is another daemon.
    expect([undefined, '75']).toContain(/^RestartPreventExitStatus=(.*)$/m.exec(unit)?.[1]);
  });
});
