// openid-client discovers the endpoints, logs in, refreshes and revokes, and checks the errors.
import assert from 'node:assert/strict'
import * as client from 'openid-client'

const { RUEDA_URL: base, RUEDA_USER: username, RUEDA_PASSWORD: password } = process.env

const config = await client.discovery(new URL(base), 'any', undefined, client.None(), {
  algorithm: 'oauth2',
  execute: [client.allowInsecureRequests], // plain HTTP, on this machine
})
assert.equal(config.serverMetadata().issuer, base)

const login = await client.genericGrantRequest(config, 'password', { username, password })
assert.equal(login.token_type, 'bearer')
assert.equal(login.expires_in, 86400)
assert.ok(login.expiresIn() > 86400 - 60) // what is left of it by now
assert.match(login.scope, /accounts:read/)

async function accounts(token) {
  const url = new URL('/broker/accounts', base)
  const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } })
  await answer.body?.cancel()
  return answer.status
}
assert.equal(await accounts(login.access_token), 200)

const renewed = await client.refreshTokenGrant(config, login.refresh_token)
assert.notEqual(renewed.refresh_token, login.refresh_token)
assert.equal(await accounts(renewed.access_token), 200)

await client.tokenRevocation(config, renewed.refresh_token)
assert.equal(await accounts(renewed.access_token), 401)

const refused = (error) => {
  assert.ok(error instanceof client.ResponseBodyError, String(error))
  assert.equal(error.error, 'invalid_grant')
  assert.equal(error.status, 400)
  return true
}
await assert.rejects(client.refreshTokenGrant(config, renewed.refresh_token), refused)
await assert.rejects(client.genericGrantRequest(config, 'password', { username, password: 'wrong' }), refused)
await assert.rejects(client.genericGrantRequest(config, 'client_credentials', {}), (error) => error.error === 'unsupported_grant_type')

console.log('openid-client is served')
