import { formatEndpoint } from '../../domain/settings/addresses.ts';
import type { ClusterNode, WarnOnce } from '../trouble.ts';
import { exclusionText, type PeerBudgets } from '../wire/peer-budgets.ts';

interface Place {
  readonly address: string;
  /** Before its last change. */
  readonly before: string | undefined;
}

/** Where nodes announce that they are. One that moves too often is left out. */
export class Addresses {
  private places = new Map<string, Place>();

  constructor(
    private readonly budgets: PeerBudgets,
    private readonly warnings: WarnOnce,
  ) {}

  /** The nodes, without the address of those that are left out. */
  follow(nodes: readonly ClusterNode[]): readonly ClusterNode[] {
    const places = new Map<string, Place>();
    for (const { name, endpoint } of nodes) {
      const known = this.places.get(name);
      const place = endpoint === undefined ? known : this.moved(name, known, formatEndpoint(endpoint));
      if (place !== undefined) places.set(name, place);
    }
    this.places = places;
    return nodes.map((node) => {
      if (this.budgets.exclusion(node.name) === undefined) return node;
      const { endpoint: _, ...others } = node;
      return others;
    });
  }

  /** Why nothing is requested of a node, by name. */
  leftOut(): ReadonlyMap<string, { readonly address: string; readonly why: string }> {
    const out = [...this.places].flatMap(([name, { address }]) => {
      const exclusion = this.budgets.exclusion(name);
      return exclusion === undefined ? [] : ([[name, { address, why: exclusionText(exclusion) }]] as const);
    });
    return new Map(out);
  }

  private moved(name: string, known: Place | undefined, address: string): Place {
    if (known === undefined) return { address, before: undefined };
    if (known.address === address) return known;
    this.budgets.charge(name, 'address', 1);
    if (known.before === address) {
      const text = `Node ${name} announces ${address} and ${known.address} in turns: two machines may have this name`;
      this.warnings.warn(name, 'turns', { node: name }, text);
    }
    return { address, before: known.address };
  }
}
