import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from '../support/eventually.ts';

/** A control group of this host, which limits or favours the processes in it. */
export interface ControlGroup {
  /** Moves a process into it; what that starts from now on is in it too. */
  enter(pid: number): void;
  /** Moves whoever is still in it to where this process was at first, and removes it. */
  release(): Promise<void>;
}

/** What a group does, as a file of its folder and the text for it, in version 1 and 2 of control groups. */
export interface GroupRule {
  readonly one: { readonly controller: 'blkio' | 'cpu'; readonly file: string; readonly text: string };
  readonly two: { readonly controller: 'io' | 'cpu'; readonly file: string; readonly text: string };
}

const CGROUPS = '/sys/fs/cgroup';

/** Makes one beside all others. Needs root. @throws Error when the host has not got the controller */
export function createControlGroup(name: string, { one, two }: GroupRule): ControlGroup {
  const isUnified = existsSync(join(CGROUPS, 'cgroup.controllers'));
  const root = isUnified ? CGROUPS : join(CGROUPS, one.controller);
  const group = join(root, name);
  const of = isUnified ? /^0::(.*)$/m : new RegExp(`^\\d+:(?:.*,)?${one.controller}(?:,.*)?:(.*)$`, 'm');
  const home = join(root, of.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/');
  if (isUnified) writeFileSync(join(root, 'cgroup.subtree_control'), `+${two.controller}`);
  mkdirSync(group, { recursive: true });
  const rule = isUnified ? two : one;
  writeFileSync(join(group, rule.file), rule.text);
  const enter = (folder: string, pid: number | string) => writeFileSync(join(folder, 'cgroup.procs'), `${pid}`);
  return {
    enter: (pid) => enter(group, pid),
    release: () =>
      // With what this process keeps running, such as the service of esbuild.
      eventually(() => {
        const pids = readFileSync(join(group, 'cgroup.procs'), 'utf8').split('\n');
        for (const pid of pids) if (pid !== '') enter(home, pid);
        rmdirSync(group);
      }, 30_000),
  };
}
