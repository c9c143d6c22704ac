import { execFileSync } from 'node:child_process';
import type { Requirement } from '../requirements.ts';
import { program } from '../requirements.ts';

/** Machines of one network, each a network namespace with an address of its own. */
export interface Network {
  /** Makes a machine. @param host the last part of its address */
  add(host: number): Machine;
  /** Connects this machine too. @returns its address */
  join(): string;
  dispose(): void;
}

/** One machine of a {@link Network}. */
export interface Machine {
  /** `10.77.0.<host>` */
  readonly address: string;
  /** The words that start a program on it. */
  readonly enter: readonly string[];
  run(...words: readonly string[]): void;
}

/** What a network needs of this machine. */
export const networking: readonly Requirement[] = [
  program('ip', 'apt-get install iproute2'),
  { name: 'network namespaces', isMet: canNest, remedy: 'run as root, with CAP_NET_ADMIN and CAP_SYS_ADMIN' },
];

function canNest(): boolean {
  try {
    createNetwork().dispose();
    return true;
  } catch {
    return false;
  }
}

const ip = (...words: readonly string[]) => execFileSync('ip', words, { stdio: ['ignore', 'ignore', 'pipe'] });

let made = 0;

/** Beside that of all networks: this machine can join several networks. */
const subnet = (host: number) => `10.78.${process.pid % 250}.${host}`;

/** A network without machines: a bridge in a namespace of its own. */
export function createNetwork(): Network {
  made += 1;
  const prefix = `sp${process.pid}x${made}`;
  const hub = `${prefix}h`;
  const names = [hub];
  ip('netns', 'add', hub);
  ip('-n', hub, 'link', 'add', 'hub', 'type', 'bridge');
  ip('-n', hub, 'link', 'set', 'hub', 'up');
  return {
    add: (host) => {
      const name = `${prefix}n${host}`;
      const address = `10.77.0.${host}`;
      ip('netns', 'add', name);
      names.push(name);
      ip('-n', hub, 'link', 'add', `n${host}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
      ip('-n', hub, 'link', 'set', `n${host}`, 'master', 'hub', 'up');
      ip('-n', name, 'address', 'add', `${address}/24`, 'dev', 'eth0');
      ip('-n', name, 'address', 'add', `${subnet(host)}/24`, 'dev', 'eth0');
      ip('-n', name, 'link', 'set', 'eth0', 'up');
      ip('-n', name, 'link', 'set', 'lo', 'up');
      const enter = ['ip', 'netns', 'exec', name];
      const run = (...words: readonly string[]) => {
        execFileSync('ip', ['netns', 'exec', name, ...words], { stdio: ['ignore', 'ignore', 'pipe'] });
      };
      return { address, enter, run };
    },
    join: () => {
      const link = `${prefix}r`;
      ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'root', 'netns', hub);
      ip('-n', hub, 'link', 'set', 'root', 'master', 'hub', 'up');
      ip('address', 'add', `${subnet(254)}/24`, 'dev', link);
      ip('link', 'set', link, 'up');
      return subnet(254);
    },
    dispose: () => {
      for (const name of names.splice(0).reverse()) ip('netns', 'delete', name);
    },
  };
}
