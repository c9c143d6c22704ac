import type { Section } from '../section.ts';
import { loopbackAddress, userIds } from '../value-types.ts';

/** The settings of section `registry`. */
export const registrySection = {
  about: "The registry from which the container runtime pulls. It serves only what a node's bundles carry.",
  settings: {
    listen: {
      type: loopbackAddress,
      default: '127.0.0.1:5317',
      about:
        'Where the registry listens when systemd does not give it a socket. With `stickpin-registry.socket`, that unit says where.',
    },
    allow_uids: {
      type: userIds,
      default: [0],
      about: "Users whose processes may pull. The daemon's own user always may.",
    },
  },
} satisfies Section;
