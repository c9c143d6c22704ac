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

const CONTEXT =
  'current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: [{name: a, cluster: {server: https://a}}]\n';

it.each([
  ['a token of digits', `${CONTEXT}users: [{name: a, user: {token: 4711}}]`, 'users.0.user.token: must be text'],
  ['a user that is a token', `${CONTEXT}users: [{name: a, user: x4711}]`, 'users.0.user: must be an object'],
  ['a file that is a token', 'x4711', 'the file: must be an object'],
  ['a login', 'current-context: a\ncontexts: []\nclusters: [{name: a, cluster: {server: x4711}}]', 'is not valid'],
])('shows no value of a kubeconfig: %s', (_what, content, why) => {
  const parsed = parseKubeconfig(content, '/etc/kubelet.conf');
  expect(parsed).toMatchObject({ kind: 'unusable', why: expect.stringContaining(why) });
  expect(parsed).not.toMatchObject({ why: expect.stringContaining('4711') });
});
