import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { actionId } from '../../../src/api/authority.ts';
import { ACTIONS, MANAGER, METHODS, type MethodContract, SERVICE } from '../../../src/api/contract.ts';

const policy = readFileSync('systemd/io.stickpin1.conf', 'utf8');
const forEverybody = /<policy context="default">([\s\S]*?)<\/policy>/.exec(policy)?.[1] ?? '';

describe('the policy of the bus', () => {
  it('lets everybody call the manager, since the daemon asks polkit', () => {
    expect(forEverybody).toContain(`<allow send_destination="${SERVICE}" send_interface="${MANAGER}"/>`);
    expect(forEverybody.split(`send_interface="${SERVICE}`)).toHaveLength(2);
  });

  it('lets everybody read all properties and list all objects, and set nothing', () => {
    const others = [
      ...forEverybody.matchAll(/send_interface="org\.freedesktop\.DBus\.(\w+)"(?: send_member="(\w+)")?/g),
    ];
    expect(others.map(([, iface, member = '*']) => `${iface}.${member}`)).toEqual([
      'Properties.Get',
      'Properties.GetAll',
      'ObjectManager.GetManagedObjects',
      'Introspectable.*',
      'Peer.*',
    ]);
    const rules = forEverybody.match(/<allow [^>]*>/g) ?? [];
    expect(rules.every((rule) => rule.includes(`send_destination="${SERVICE}" send_interface="`))).toBe(true);
  });
});

describe('the actions of polkit', () => {
  const declared = readFileSync('systemd/io.stickpin1.policy', 'utf8');

  it('are those of the contract, and by default only root may call them', () => {
    const names = Object.keys(ACTIONS) as (keyof typeof ACTIONS)[];
    expect([...declared.matchAll(/<action id="([^"]+)">/g)].map(([, id]) => id)).toEqual(names.map(actionId));
    for (const who of ['any', 'inactive', 'active']) {
      expect(declared.split(`<allow_${who}>no</allow_${who}>`)).toHaveLength(names.length + 1);
    }
  });

  it('guard every method except the reading one', () => {
    const open = Object.entries<MethodContract>(METHODS).filter(([, { access }]) => access === 'anybody');
    expect(open.map(([key]) => key)).toEqual(['getHistory', 'getImages', 'getImageStates']);
    const used = new Set(Object.values<MethodContract>(METHODS).map(({ access }) => access));
    expect([...used].filter((access) => access !== 'anybody').sort()).toEqual(Object.keys(ACTIONS).sort());
  });
});
