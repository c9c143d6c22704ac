/** Where a distribution of Kubernetes keeps what a kubelet proves itself with. */
export interface Distribution {
  readonly name: string;
  readonly kubeconfig: string;
  /** Files of kind `KubeletConfiguration`, of which the last one with a `clientCAFile` counts. */
  readonly kubeletConfigs: readonly string[];
  /** The usual `clientCAFile`, where the kubelet gets it in another way. */
  readonly clientCa: string;
}

/**
 * The distributions, in the order in which they are looked for. Each has a kubeconfig of its own.
 * The files of k3s and RKE2 tell a kubelet's settings from version 1.32 on; before that they are
 * arguments.
 */
export const DISTRIBUTIONS: readonly Distribution[] = [
  {
    name: 'OpenShift',
    kubeconfig: '/var/lib/kubelet/kubeconfig',
    kubeletConfigs: ['/etc/kubernetes/kubelet.conf'],
    clientCa: '/etc/kubernetes/kubelet-ca.crt',
  },
  {
    name: 'k3s',
    kubeconfig: '/var/lib/rancher/k3s/agent/kubelet.kubeconfig',
    kubeletConfigs: ['/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf'],
    clientCa: '/var/lib/rancher/k3s/agent/client-ca.crt',
  },
  {
    name: 'RKE2',
    kubeconfig: '/var/lib/rancher/rke2/agent/kubelet.kubeconfig',
    kubeletConfigs: ['/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-rke2-defaults.conf'],
    clientCa: '/var/lib/rancher/rke2/agent/client-ca.crt',
  },
  {
    name: 'MicroK8s',
    kubeconfig: '/var/snap/microk8s/current/credentials/kubelet.config',
    kubeletConfigs: [],
    clientCa: '/var/snap/microk8s/current/certs/ca.crt',
  },
  {
    name: 'k0s',
    kubeconfig: '/var/lib/k0s/kubelet.conf',
    kubeletConfigs: ['/var/lib/k0s/kubelet-config.yaml'],
    clientCa: '/var/lib/k0s/pki/ca.crt',
  },
  {
    name: 'kubeadm',
    kubeconfig: '/etc/kubernetes/kubelet.conf',
    kubeletConfigs: ['/var/lib/kubelet/config.yaml'],
    clientCa: '/etc/kubernetes/pki/ca.crt',
  },
];

/** The certificate that a kubelet rotates, with its key in the same file. */
export const KUBELET_CERTIFICATE = '/var/lib/kubelet/pki/kubelet-client-current.pem';
