import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { busNameOf } from '../../../src/api/bus-name.ts';
import { MANAGER, METHODS, type MethodContract, SERVICE } from '../../../src/api/contract.ts';

const policy = readFileSync('systemd/io.stickpin1.conf', 'utf8');
const forEverybody = /<policy context="default">([\s\S]*?)<\/policy>/.exec(policy)?.[1] ?? '';

describe('the policy of the bus', () => {
  it('lets everybody call what the contract says, and nothing else of ours', () => {
    const methods = Object.entries<MethodContract>(METHODS).filter(([, { access }]) => access === 'anybody');
    const ours = [...forEverybody.matchAll(new RegExp(`send_interface="${MANAGER}" send_member="(\\w+)"`, 'g'))];
    expect(ours.map(([, member]) => member)).toEqual(methods.map(([key]) => busNameOf(key)));
    expect(ours).toHaveLength(forEverybody.split(`send_interface="${SERVICE}`).length - 1);
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
