import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { eventually } from '../../support/eventually.ts';

/** A control group of this host, which limits or favours the processes in it. */
export interface ControlGroup {
  /** Moves a process into it; what that starts from now on is in it too. */
  enter(pid: number): void;
  /** Moves whoever is still in it to where this process was at first, and removes it. */
  release(): Promise<void>;
}

/**
 * What a group does, as a file of its folder and the text for it, in either version of control
 * groups.
 */
export interface GroupRule {
  readonly v1: { readonly controller: 'blkio' | 'cpu'; readonly file: string; readonly text: string };
  readonly v2: { readonly controller: 'io' | 'cpu'; readonly file: string; readonly text: string };
}

const CGROUPS = '/sys/fs/cgroup';

/**
 * Makes a group at the top of the hierarchy, or within one that was made before: `parent/name`.
 * Needs root.
 *
 * @throws Error when the host has not got the controller
 */
export function createControlGroup(name: string, { v1, v2 }: GroupRule): ControlGroup {
  const isUnified = existsSync(join(CGROUPS, 'cgroup.controllers'));
  const root = isUnified ? CGROUPS : join(CGROUPS, v1.controller);
  if (!existsSync(join(root, 'cgroup.procs')))
    throw new Error(`${root} is not a control group: this host has no such controller`);
  const group = join(root, name);
  const ownLine = isUnified ? /^0::(.*)$/m : new RegExp(`^\\d+:(?:.*,)?${v1.controller}(?:,.*)?:(.*)$`, 'm');
  const home = join(root, ownLine.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/');
  if (isUnified) writeFileSync(join(dirname(group), 'cgroup.subtree_control'), `+${v2.controller}`);
  if (!existsSync(group)) mkdirSync(group);
  const rule = isUnified ? v2 : v1;
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
