import { dataRate, listenAddress, peerAddresses } from '../network-types.ts';
import type { Section } from '../section.ts';
import { absolutePathOrAuto, duration, flag, oneOf, streamNames, wholeNumber } from '../value-types.ts';

/** The settings of section `fleet`. */
export const fleetSection = {
  about: 'Nodes that give bundles to each other.',
  settings: {
    enabled: {
      type: flag,
      default: false,
      about: 'Whether this node takes bundles from other nodes and tells the cluster about its releases.',
    },
    listen: {
      type: listenAddress,
      default: 'auto',
      about:
        'Where other nodes reach this one. `auto` is the `InternalIP` of the own Node object. With `0.0.0.0` or `[::]` it listens on all addresses, and names its `InternalIP` to other nodes.',
    },
    peers: {
      type: peerAddresses,
      default: [],
      about: 'Other nodes that are asked besides those that the Kubernetes API names, also while no API server runs.',
    },
    auth: {
      type: oneOf(['kubelet', 'none'], 'must be "kubelet" or "none"'),
      default: 'kubelet',
      about:
        "How nodes prove who they are: with the kubelet's client certificate (TLS 1.3), or not at all. With `none` everything is sent in clear text to everybody who can reach the port, and `fleet.listen` must name an address.",
    },
    kubeconfig: {
      type: absolutePathOrAuto,
      default: 'auto',
      about: "The kubelet's kubeconfig. `auto` looks where kubeadm, OpenShift, k3s, RKE2, MicroK8s and k0s put it.",
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
        'When a release is activated in a cluster: node after node, by name, once all known nodes are ready; on each node alone; or when a person runs `stickpin activate`.',
    },
    absent: {
      type: duration,
      default: '1 h',
      about:
        'After which time without a sign of life a node is left out of the order. A node that knows no other one, and may not be alone, waits as long.',
    },
  },
} satisfies Section;
