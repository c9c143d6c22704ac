import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { TestCertificate } from './authority.ts';

/** The files of a kubelet as kubeadm lays them, below a folder of a test. */
export interface KubeletFiles {
  readonly root: string;
  readonly kubeconfig: string;
  readonly clientCa: string;
  /**
   * Puts another certificate in place as the kubelet does: a new file, and a link that moves to it.
   */
  rotate(certificate: TestCertificate): void;
  /** Rewrites the bundle of authorities. */
  trust(...authorities: readonly { readonly certificate: string }[]): void;
}

/** Lays the files of a kubelet below `root`. */
export function layKubeletFiles(
  root: string,
  certificate: TestCertificate,
  ...authorities: readonly { readonly certificate: string }[]
): KubeletFiles {
  const pki = join(root, 'var/lib/kubelet/pki');
  const current = join(pki, 'kubelet-client-current.pem');
  const kubeconfig = join(root, 'etc/kubernetes/kubelet.conf');
  const clientCa = join(root, 'etc/kubernetes/pki/ca.crt');
  for (const folder of [pki, dirname(kubeconfig), dirname(clientCa)]) mkdirSync(folder, { recursive: true });
  let turn = 0;
  const files: KubeletFiles = {
    root,
    kubeconfig,
    clientCa,
    rotate: ({ certificate: text, key }) => {
      turn += 1;
      const file = join(pki, `kubelet-client-${turn}.pem`);
      writeFileSync(file, `${text}${key}`, { mode: 0o600 });
      rmSync(`${current}.new`, { force: true });
      symlinkSync(file, `${current}.new`);
      renameSync(`${current}.new`, current);
    },
    trust: (...trusted) => writeFileSync(clientCa, trusted.map((one) => one.certificate).join('')),
  };
  files.rotate(certificate);
  files.trust(...authorities);
  writeFileSync(kubeconfig, kubeconfigText('../../var/lib/kubelet/pki/kubelet-client-current.pem'));
  writeFileSync(
    join(root, 'var/lib/kubelet/config.yaml'),
    'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nauthentication:\n  x509:\n    clientCAFile: /etc/kubernetes/pki/ca.crt\n',
  );
  return files;
}

/**
 * A kubeconfig as kubeadm makes it, with one file for certificate and key. `ca`: the authority of
 * the server, PEM.
 */
export function kubeconfigText(file: string, server = 'https://127.0.0.1:6443', ca = ''): string {
  const authority = ca && `    certificate-authority-data: ${Buffer.from(ca).toString('base64')}\n`;
  return `apiVersion: v1
kind: Config
clusters:
- name: default-cluster
  cluster:
    server: ${server}
${authority}contexts:
- name: default-context
  context:
    cluster: default-cluster
    namespace: default
    user: default-auth
current-context: default-context
users:
- name: default-auth
  user:
    client-certificate: ${file}
    client-key: ${file}
`;
}
