import type { Section } from '../section.ts';
import { absolutePath, absolutePaths, oneOf } from '../value-types.ts';

/** The settings of section `runtime`. */
export const runtimeSection = {
  about: 'The container runtime.',
  settings: {
    kind: {
      type: oneOf(['auto', 'cri-o', 'containerd', 'embedded']),
      default: 'auto',
      about:
        'The container runtime that gets the images. `auto` looks for CRI-O and containerd; where both answer it takes CRI-O, unless one is in use already. `embedded` keeps the images in a folder and runs nothing.',
    },
    socket: {
      type: absolutePath,
      default: undefined,
      about: 'Socket of the runtime (CRI). When not set: the usual socket of the runtime.',
    },
    certs_dir: {
      type: absolutePath,
      default: undefined,
      about: "containerd's `certs.d` folder. When not set: the folder that containerd's configuration names.",
    },
    static_pods: {
      type: absolutePaths,
      default: undefined,
      about:
        "Folders with the manifests of static pods. When not set: the `staticPodPath` of the kubelet's configuration, and the usual folders of kubeadm, k3s and RKE2.",
    },
  },
} satisfies Section;
