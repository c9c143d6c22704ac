import { readFileSync, readlinkSync } from 'node:fs';
import type { NodeFacts } from '../domain/model/node-facts.ts';
import { parseMachineId } from '../domain/time/rollout.ts';
import { UTC } from '../domain/time/windows.ts';
import { systemCodeOf } from '../platform/app-error.ts';
import { BUILT_AT } from '../platform/version.ts';

/** Where the machine says who and where it is: machine-id(5), localtime(5). */
const FILES = { machineId: '/etc/machine-id', localTime: '/etc/localtime' } as const;

/**
 * What rules about time are judged by, as it is now. A file that can't be read counts as absent.
 */
export function nodeFacts(files: { readonly machineId: string; readonly localTime: string } = FILES): NodeFacts {
  return { builtAt: BUILT_AT, machineId: machineIdIn(files.machineId), timeZone: zoneOf(files.localTime) };
}

function machineIdIn(path: string): string | undefined {
  try {
    return parseMachineId(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

/**
 * The zone that the link `/etc/localtime` names (localtime(5)). Where it is not a link, what the
 * program's time zone data take the file for; UTC where there is none.
 */
function zoneOf(path: string): string {
  let target: string;
  try {
    target = readlinkSync(path);
  } catch (error) {
    const isFile = systemCodeOf(error) === 'EINVAL';
    return isFile ? new Intl.DateTimeFormat().resolvedOptions().timeZone : UTC;
  }
  const [, name = UTC] = /\/zoneinfo\/(?:posix\/)?(.+)$/.exec(target) ?? [];
  return name;
}
