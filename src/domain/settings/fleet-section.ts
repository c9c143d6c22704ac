import { listenAddress, peerAddresses } from './addresses.ts';
import { rollOutOrder } from './roll-out-order.ts';
import type { Section } from './sections.ts';
import {
  absolutePath,
  absolutePathOrAuto,
  dataRate,
  duration,
  excludedNodes,
  flag,
  oneOf,
  streamNames,
  wholeNumber,
} from './value-types.ts';

export const fleetSection = {
  about: 'Nodes that give bundles to each other.',
  settings: {
    enabled: {
      type: flag,
      default: false,
      about: 'Whether this node takes bundles from other nodes and publishes its releases in the cluster.',
    },
    listen: {
      type: listenAddress,
      default: 'auto',
      about:
        'The address on which other nodes reach this one. `auto` is the `InternalIP` of its Node object. With `0.0.0.0` or `[::]` it listens on all addresses and publishes its `InternalIP`.',
    },
    peers: {
      type: peerAddresses,
      default: [],
      about:
        'Other nodes to take bundles from, besides those of the Kubernetes API. They are used while no API server runs, too.',
    },
    auth: {
      type: oneOf(['kubelet', 'keys', 'none'], 'must be "kubelet", "keys" or "none"'),
      default: 'kubelet',
      about:
        "How nodes prove who they are: with the kubelet's client certificate (TLS 1.3), with keys of their own that `fleet.keys_file` lists (TLS 1.3, for nodes without a kubelet; needs `fleet.listen` and `fleet.peers`), or not at all. With `none` everybody who can reach the port may read bundles, in clear text, and `fleet.listen` must name an address.",
    },
    keys_file: {
      type: absolutePath,
      default: '/etc/stickpin/fleet.keys',
      about:
        'The keys of all nodes with `fleet.auth = "keys"`, the same file on all of them: one `sha256:… name` a line, as `stickpin fleet key` prints it on each. A change is used once it has stayed the same for 10 s. See [fleet.md](fleet.md#without-kubernetes).',
    },
    kubeconfig: {
      type: absolutePathOrAuto,
      default: 'auto',
      about: "The kubelet's kubeconfig. `auto` finds it where kubeadm, OpenShift, k3s, RKE2, MicroK8s and k0s put it.",
    },
    client_ca: {
      type: absolutePathOrAuto,
      default: 'auto',
      about:
        "Certificates of the authorities that sign the kubelets' client certificates, in PEM. `auto` is the kubelet's own `clientCAFile`.",
    },
    serve: {
      type: flag,
      default: true,
      about: 'Whether this node gives bundles to others.',
    },
    except: {
      type: streamNames,
      default: [],
      about: 'Streams that this node does not give to others, such as those whose images need pull secrets.',
    },
    max_clients: {
      type: wholeNumber(1),
      default: 2,
      about: 'How many nodes may take blobs from this one at the same time. Others wait for their turn.',
    },
    rate: {
      type: dataRate,
      default: 'unlimited',
      about: 'How much this node gives to all others together.',
    },
    activate: {
      type: oneOf(['ordered', 'each', 'manual'], 'must be "ordered", "each" or "manual"'),
      default: 'ordered',
      about:
        'When a release is activated in a cluster: node after node, in `fleet.order`, once all known nodes are ready; on each node alone; or when a person runs `stickpin activate`. A release whose bundle has an order follows it with `each`, too.',
    },
    order: {
      type: rollOutOrder,
      default: undefined,
      about:
        'The order of the nodes, the same on all of them. When not set: by name, one after the other. Of an order that is signed with a release it only lowers `max_unavailable` and `pause_after_failures`, lengthens `soak` and `settle`, asks for `done = "proven"`, and pauses after a rollback. See [fleet.md](fleet.md#the-order).',
    },
    exclude: {
      type: excludedNodes,
      default: [],
      about:
        'Nodes that were removed, by name or by the SHA-256 of their certificate: this node does not wait for them, takes nothing from them, believes nothing that they say, and gives them nothing. Set it on every node; `stickpin fleet remove` sets it on one.',
    },
    absent: {
      type: duration,
      default: '1 h',
      about:
        'How long the order waits for a node that does not answer. A node that knows no other node, and may not be alone, waits as long.',
    },
  },
} satisfies Section;
