import { expect, it, onTestFinished, vi } from 'vitest';
import { parseKubeconfig } from '../../../../src/fleet/identity/kubelet-files.ts';

it('prints no warning of the parser, which would show lines of a kubeconfig', () => {
  const written = vi.spyOn(process, 'emitWarning').mockReturnValue();
  onTestFinished(() => written.mockRestore());
  expect(parseKubeconfig('users: [{name: a, user: {token: !x secret}}]\n', '/etc/kubelet.conf').kind).toBe('unusable');
  expect(written).not.toHaveBeenCalled();
});

it('shows no line of a kubeconfig that is no YAML', () => {
  const parsed = parseKubeconfig('users:\n- user: {token: secret]\n', '/etc/kubelet.conf');
  expect(parsed).toMatchObject({ kind: 'unusable', why: expect.stringMatching(/at line 2, column \d+$/) });
  expect(parsed).not.toMatchObject({ why: expect.stringContaining('secret') });
});
